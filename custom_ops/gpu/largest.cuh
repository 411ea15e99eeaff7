// The largest magnitude of many values, from which a scale follows (gpu/isa/halves.cuh).
#pragma once

#include <cuda_runtime.h>

namespace fops {

// The larger of a magnitude so far and |value|; a NaN counts as infinity.
__device__ inline float larger(float so_far, float value) {
  return fabsf(value) <= so_far ? so_far : fminf(fabsf(value), INFINITY);  // fminf of NaN and infinity is infinity
}

// The largest |value| over a block, for values of 0 and above. Every thread calls it; `scratch` is one shared word.
__device__ inline float block_max(float value, unsigned* scratch) {
  unsigned bits = __float_as_uint(value);  // ordered as unsigned integers are
  __syncthreads();
  if (threadIdx.x == 0) *scratch = 0;
  __syncthreads();
  for (int offset = 16; offset > 0; offset /= 2) bits = max(bits, __shfl_xor_sync(0xffffffffu, bits, offset));
  if (threadIdx.x % 32 == 0) atomicMax(scratch, bits);
  __syncthreads();
  return __uint_as_float(*scratch);
}

}  // namespace fops
