// Stores outputs to global memory: as floats, or as halves for a dense layer of the fused mode
// (conv/cuda/halves_out.h).
#pragma once

#include "conv/cuda/halves_out.h"
#include "gpu/isa/halves.cuh"

namespace fops {

__host__ __device__ inline float* advanced(float* y, long long by) { return y + by; }
__host__ __device__ inline HalvesOut advanced(HalvesOut y, long long by) {
  y.hi += by, y.lo += by;
  return y;
}

// Return the position of an image's first output. In floats, images of `filters` planes are contiguous.
__host__ __device__ inline float* image_of(float* y, long long image, int filters, int plane) {
  return y + image * filters * plane;
}
__host__ __device__ inline HalvesOut image_of(const HalvesOut& y, long long image, int, int) {
  return advanced(y, image * y.stride);
}

// Return the offset, from an image's first output, of filter m's output at position `at` of a plane.
__host__ __device__ inline long long output_at(const float*, int m, int at, int, int plane) {
  return 1LL * m * plane + at;
}
__host__ __device__ inline long long output_at(const HalvesOut& y, int m, int at, int filters, int plane) {
  return y.side_by_side ? 1LL * at * filters + m : 1LL * m * plane + at;
}

__device__ inline float with_relu(const HalvesOut& y, float v) { return y.relu && v < 0.0f ? 0.0f : v; }

// Two neighbouring outputs, already scaled by the caller, split into high parts and low parts.
struct TwoHalves {
  __half2 hi, lo;
  __device__ TwoHalves(float a, float b)
      : hi(__floats2half2_rn(a, b)), lo(__floats2half2_rn(a - __low2float(hi), b - __high2float(hi))) {}
};

// Stores v to global memory. Without the assumption, the compiler would emit a generic store if `to` comes from a
// structure.
template <typename T>
__device__ inline void store_global(T* to, T v) {
  __builtin_assume(__isGlobal(to));
  *to = v;
}

// Stores an output at offset `at`. The first function stores a float; the second applies relu if requested, scales, and
// stores a high and a low part in half precision.
__device__ inline void put(float* y, long long at, float v) { y[at] = v; }
__device__ inline void put(const HalvesOut& y, long long at, float v) {
  const Split parts = split(with_relu(y, v) * y.scale);
  store_global(y.hi + at, parts.hi), store_global(y.lo + at, parts.lo);
}
// Stores two neighbouring outputs in the same way. `at` must be even.
__device__ inline void put_two(const HalvesOut& y, long long at, float2 v) {
  const TwoHalves two(with_relu(y, v.x) * y.scale, with_relu(y, v.y) * y.scale);
  store_global(reinterpret_cast<__half2*>(y.hi + at), two.hi);
  store_global(reinterpret_cast<__half2*>(y.lo + at), two.lo);
}
__device__ inline float larger_or_nan(float v, float minimum) {
  float larger;
  asm("max.NaN.f32 %0, %1, %2;" : "=f"(larger) : "f"(v), "f"(minimum));
  return larger;
}
// Splits and stores four neighbouring outputs, to which the caller has applied relu and the scale. `at` must be a
// multiple of four.
__device__ inline void put_four(const HalvesOut& y, long long at, float4 v) {
  const TwoHalves a(v.x, v.y), b(v.z, v.w);
  // uint64_t, because the compiler would store a uint2 with two instructions.
  store_global(reinterpret_cast<uint64_t*>(y.hi + at), uint64_t{bits(b.hi)} << 32 | bits(a.hi));
  store_global(reinterpret_cast<uint64_t*>(y.lo + at), uint64_t{bits(b.lo)} << 32 | bits(a.lo));
}

// Copies `count` outputs of each of M filters from shared memory (`staged`) to y (`out`). All kWarps warps of a block
// call this; a warp copies one filter at a time. Filters are `stride` floats apart in shared memory and `plane` floats
// apart in y. `vector`: whether lanes copy 16 bytes at a time. Ends with __syncthreads.
template <int kWarps>
__device__ inline void store_filters(float* out, int plane, const float* staged, int stride, int M, int count,
                                     bool vector) {
  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
  if (vector) {
    for (int m = warp; m < M; m += kWarps)
      for (int i = lane * 4; i < count; i += 128)
        __stcs(reinterpret_cast<float4*>(out + m * plane + i),
               *reinterpret_cast<const float4*>(staged + m * stride + i));
    __syncthreads();
  } else {
    for (int m = warp; m < M; m += kWarps)
      for (int i = lane; i < count; i += 32) out[m * plane + i] = staged[m * stride + i];
    __syncthreads();
  }
}

}  // namespace fops
