// Pipelines between producer and consumer warps of a block: the named barriers of every kernel, and the code common
// to their circular buffers, whose stages mbarriers guard (PipelineState in gpu/isa/bulk_copy.cuh).
//
//   producer   wait(empty[stage], phase ^ 1)   write the stage   arrive(full[stage])    next
//   consumer   wait(full[stage], phase)        read the stage    arrive(empty[stage])   next
#pragma once

#include "gpu/isa/bulk_copy.cuh"
#include "gpu/isa/wgmma.cuh"

namespace fops {

// Whether an mbarrier's phase is complete, the same answer for all lanes of a warp.
__device__ inline bool warp_barrier_done(uint64_t* barrier, uint32_t parity) {
  return __any_sync(0xffffffffu, barrier_done(barrier, parity));
}

// The hardware's barriers 1 to 15 of a block; 0 is __syncthreads. Kernels never share a block, so each uses its own.
enum NamedBarrier : int {
  kWarpgroupBarrier = 1,  // 1 to 4: the threads of a warpgroup

  kAnyShapeConsumers = 2,  // 2 and 3: one per consumer warpgroup

  kResidentFallback = 1,
  kResidentTable = 2,    // the table of where a unit's weights are is ready
  kResidentWeights = 3,  // raw weights have been copied

  kRegisterWeightsFallback = 1,  // 1 and 2: one per consumer warpgroup
  kRegisterWeightsSplit = 3,

  kRowPairsWeights = 4,  // after the warpgroups' barriers
  kRowPairsProducers = 5,

  kColumnTilesProducers = 1,  // 1 and 2: one per team, as below
  kColumnTilesFallback = 3,
  kColumnTilesWeights = 7,
  kColumnTilesTurn = 8,

  kPipelinedProducers = 1,
  kPipelinedConsumers = 2,
};

// A barrier among the 128 threads of warpgroup `group` of the block.
__device__ inline void warpgroup_sync(int group) { named_barrier(kWarpgroupBarrier + group, 128); }

}  // namespace fops
