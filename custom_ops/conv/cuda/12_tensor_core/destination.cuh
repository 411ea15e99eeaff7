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

__device__ inline float finished(const HalvesOut& y, float v) { return (y.relu && v < 0.0f ? 0.0f : v) * y.scale; }

// An output to its place.
__device__ inline void put(float* y, long long at, float v) { y[at] = v; }
__device__ inline void put(const HalvesOut& y, long long at, float v) {
  const Split parts = split(finished(y, v));
  y.hi[at] = parts.hi, y.lo[at] = parts.lo;
}
// An output and the next one, at an even place.
__device__ inline void put_two(const HalvesOut& y, long long at, float2 v) {
  const float first = finished(y, v.x), second = finished(y, v.y);
  const __half2 hi = __floats2half2_rn(first, second);
  *reinterpret_cast<__half2*>(y.hi + at) = hi;
  *reinterpret_cast<__half2*>(y.lo + at) = __floats2half2_rn(first - __low2float(hi), second - __high2float(hi));
}

}  // namespace fops
