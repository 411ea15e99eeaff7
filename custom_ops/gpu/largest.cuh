// The largest magnitude of many values, from which a scale follows (gpu/isa/halves.cuh).
#pragma once

#include <cuda_runtime.h>

namespace fops {

// The larger of a magnitude so far and |value|; a NaN counts as infinity.
__device__ inline float larger(float so_far, float value) {
  return fabsf(value) <= so_far ? so_far : fminf(fabsf(value), INFINITY);  // fminf of NaN and infinity is infinity
}

// The largest `bits` over a warp, for all of its threads. Not __reduce_max_sync, which begins with sm_80.
__device__ inline unsigned warp_max(unsigned bits) {
  for (int offset = 16; offset > 0; offset /= 2) bits = max(bits, __shfl_xor_sync(0xffffffffu, bits, offset));
  return bits;
}

// The threads that search together: a block, or some whole warps of it, which have a type like this one.
struct WholeBlock {
  __device__ int thread() const { return threadIdx.x; }
  __device__ void sync() const { __syncthreads(); }
};

// The largest `bits` over a team. Every thread of it calls this; `scratch` is one shared word.
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
// The largest |value|; for values of 0 and above, bits have the same order as values.
template <typename Team = WholeBlock>
__device__ inline float block_max(float value, unsigned* scratch, const Team& team = {}) {
  return __uint_as_float(block_max(__float_as_uint(value), scratch, team));
}

}  // namespace fops
