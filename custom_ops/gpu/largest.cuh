#pragma once

#include <cuda_runtime.h>

namespace fops {

// Returns the larger of `so_far`, the largest magnitude so far, and |value|. A NaN counts as infinity.
__device__ inline float larger(float so_far, float value) {
  return fabsf(value) <= so_far ? so_far : fminf(fabsf(value), INFINITY);  // fminf of NaN and infinity is infinity
}

// Returns the largest `bits` of a warp's threads, in each of them. (__reduce_max_sync would need sm_80.)
__device__ inline unsigned warp_max(unsigned bits) {
  for (int offset = 16; offset > 0; offset /= 2) bits = max(bits, __shfl_xor_sync(0xffffffffu, bits, offset));
  return bits;
}

// A team is the threads that search together. This one is a whole block; other files have types with the same members
// for some warps of a block.
struct WholeBlock {
  __device__ int thread() const { return threadIdx.x; }
  __device__ void sync() const { __syncthreads(); }
};

// Returns the largest `bits` of a team's threads. All threads of the team call this function; `scratch` is one word of
// shared memory.
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
// Returns the largest `value` of a team's threads. The values must not be negative: then their bits, read as integers,
// have the same order as the values.
template <typename Team = WholeBlock>
__device__ inline float block_max(float value, unsigned* scratch, const Team& team = {}) {
  return __uint_as_float(block_max(__float_as_uint(value), scratch, team));
}

}  // namespace fops
