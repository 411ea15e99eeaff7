// The largest magnitude of many values, from which a scale follows (gpu/isa/halves.cuh).
#pragma once

#include <cuda_runtime.h>

namespace fops {

// Returns the larger of the largest magnitude so far and |value|; a NaN counts as infinity.
__device__ inline float larger(float so_far, float value) {
  return fabsf(value) <= so_far ? so_far : fminf(fabsf(value), INFINITY);  // fminf of NaN and infinity is infinity
}

// Returns the largest `bits` of a warp to all of its threads. __reduce_max_sync is not used, because it needs sm_80.
__device__ inline unsigned warp_max(unsigned bits) {
  for (int offset = 16; offset > 0; offset /= 2) bits = max(bits, __shfl_xor_sync(0xffffffffu, bits, offset));
  return bits;
}

// The threads that search together: a block, or some whole warps of a block, for which a type like this one exists.
struct WholeBlock {
  __device__ int thread() const { return threadIdx.x; }
  __device__ void sync() const { __syncthreads(); }
};

// Returns the largest `bits` of a team. Every thread of the team calls this; `scratch` is one shared word.
template <typename Team = WholeBlock>
__device__ inline unsigned block_max(unsigned bits, unsigned* scratch, const Team& team = {}) {
  team.sync();
  if (team.thread() == 0) *scratch = 0;
  team.sync();
  bits = warp_max(bits);
  if (threadIdx.x % 32 == 0) atomicMax(scratch, bits);
  team.sync();
  return *scratch;
}
// Returns the largest |value|; for values of 0 and above, bits have the same order as values.
template <typename Team = WholeBlock>
__device__ inline float block_max(float value, unsigned* scratch, const Team& team = {}) {
  return __uint_as_float(block_max(__float_as_uint(value), scratch, team));
}

}  // namespace fops
