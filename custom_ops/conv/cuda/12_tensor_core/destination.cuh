// Where a kernel's outputs go: floats, or halves (conv/cuda/halves_out.h).
#pragma once

#include "conv/cuda/halves_out.h"
#include "gpu/isa/halves.cuh"

namespace fops {

__host__ __device__ inline float* advanced(float* y, long long by) { return y + by; }
__host__ __device__ inline HalvesOut advanced(HalvesOut y, long long by) {
  y.hi += by, y.lo += by;
  return y;
}

// An image's first output. Of floats, images of `filters` planes follow one another.
__host__ __device__ inline float* image_of(float* y, long long image, int filters, int plane) {
  return y + image * filters * plane;
}
__host__ __device__ inline HalvesOut image_of(const HalvesOut& y, long long image, int, int) {
  return advanced(y, image * y.stride);
}

// Where filter m's output at position `at` of a plane lies in an image.
__host__ __device__ inline long long output_at(const float*, int m, int at, int, int plane) {
  return 1LL * m * plane + at;
}
__host__ __device__ inline long long output_at(const HalvesOut& y, int m, int at, int filters, int plane) {
  return y.side_by_side ? 1LL * at * filters + m : 1LL * m * plane + at;
}

__device__ inline float with_relu(const HalvesOut& y, float v) { return y.relu && v < 0.0f ? 0.0f : v; }

// Two neighbouring outputs, scaled, as halves.
struct TwoHalves {
  __half2 hi, lo;
  __device__ TwoHalves(float a, float b)
      : hi(__floats2half2_rn(a, b)), lo(__floats2half2_rn(a - __low2float(hi), b - __high2float(hi))) {}
};

// A store to global memory. Where `to` comes out of a structure the compiler does not know that it is, and takes an
// instruction for any kind of memory.
template <typename T>
__device__ inline void store_global(T* to, T v) {
  __builtin_assume(__isGlobal(to));
  *to = v;
}

// An output to its place.
__device__ inline void put(float* y, long long at, float v) { y[at] = v; }
__device__ inline void put(const HalvesOut& y, long long at, float v) {
  const Split parts = split(with_relu(y, v) * y.scale);
  store_global(y.hi + at, parts.hi), store_global(y.lo + at, parts.lo);
}
// The same of two, at an even place.
__device__ inline void put_two(const HalvesOut& y, long long at, float2 v) {
  const TwoHalves two(with_relu(y, v.x) * y.scale, with_relu(y, v.y) * y.scale);
  store_global(reinterpret_cast<__half2*>(y.hi + at), two.hi);
  store_global(reinterpret_cast<__half2*>(y.lo + at), two.lo);
}
// The larger of two, NaN if v is.
__device__ inline float larger_or_nan(float v, float least) {
  float larger;
  asm("max.NaN.f32 %0, %1, %2;" : "=f"(larger) : "f"(v), "f"(least));
  return larger;
}
// Of four that have been scaled, and behind a relu, at a place that four divides.
__device__ inline void put_four(const HalvesOut& y, long long at, float4 v) {
  const TwoHalves a(v.x, v.y), b(v.z, v.w);
  // Of a uint2 the compiler makes two stores.
  store_global(reinterpret_cast<uint64_t*>(y.hi + at), uint64_t{bits(b.hi)} << 32 | bits(a.hi));
  store_global(reinterpret_cast<uint64_t*>(y.lo + at), uint64_t{bits(b.lo)} << 32 | bits(a.lo));
}

}  // namespace fops
