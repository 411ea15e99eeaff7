// For pipelines between producer and consumer warps of a block: the numbers of all kernels' named barriers, and
// functions that several kernels use. The stages of a pipeline's circular buffer are guarded by mbarriers
// (PipelineState in gpu/isa/bulk_copy.cuh):
//
//   producer   wait(empty[stage], phase ^ 1)   write the stage   arrive(full[stage])    next
//   consumer   wait(full[stage], phase)        read the stage    arrive(empty[stage])   next
#pragma once

#include "gpu/isa/bulk_copy.cuh"
#include "gpu/isa/wgmma.cuh"

namespace fops {

// Whether an mbarrier's phase with this parity is complete. All lanes of a warp get the same answer.
__device__ inline bool warp_barrier_done(uint64_t* barrier, uint32_t parity) {
  return __any_sync(0xffffffffu, barrier_done(barrier, parity));
}

// Numbers of named barriers, 1 to 15; number 0 is used by __syncthreads. A block has its own barriers, so different
// kernels may use the same numbers.
enum NamedBarrier : int {
  kWarpgroupBarrier = 1,  // 1 to 4: one per warpgroup

  kAnyShapeConsumers = 2,  // 2 and 3: one per consumer warpgroup

  kResidentFallback = 1,
  kResidentTable = 2,    // passed when the table of the units' weights is complete
  kResidentWeights = 3,  // passed when the weights have been copied to shared memory

  kRegisterWeightsFallback = 1,  // 1 and 2: one per consumer warpgroup
  kRegisterWeightsSplit = 3,

  kRowPairsWeights = 4,  // 1 to 3 are the warpgroups' barriers
  kRowPairsProducers = 5,

  kColumnTilesProducers = 1,  // 1 and 2: one per team
  kColumnTilesFallback = 3,   // 3 and 4: one per team
  kColumnTilesWeights = 7,
  kColumnTilesTurn = 8,  // 8 and 9: one per team

  kPipelinedProducers = 1,
  kPipelinedConsumers = 2,
};

__device__ inline void warpgroup_sync(int group) { named_barrier(kWarpgroupBarrier + group, 128); }

}  // namespace fops
