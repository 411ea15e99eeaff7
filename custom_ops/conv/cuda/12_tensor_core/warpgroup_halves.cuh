// warpgroup.cu: an image's outputs out of shared memory to y, as halves.
#pragma once

#include "conv/cuda/12_tensor_core/destination.cuh"
#include "conv/cuda/12_tensor_core/warpgroup_ring.cuh"
#include "conv/cuda/dims.h"

namespace fops {
namespace few_filters {

// Outputs by fours: each thread's loads before its stores.
template <bool kRelu>
__device__ __forceinline__ void store_fours(const float* outgoing, int count, const HalvesOut& out, int rank) {
  constexpr int kOnce = 4;
#pragma unroll 1
  for (int first = 4 * rank; first < count; first += kOnce * 4 * kThreads) {
    float4 v[kOnce];
#pragma unroll
    for (int n = 0; n < kOnce; ++n)
      v[n] = *reinterpret_cast<const float4*>(outgoing + min(first + n * 4 * kThreads, count - 4));
#pragma unroll
    for (int n = 0; n < kOnce; ++n) {
      const int i = first + n * 4 * kThreads;
      if (kRelu) v[n] = make_float4(relu_of(v[n].x), relu_of(v[n].y), relu_of(v[n].z), relu_of(v[n].w));
      if (i < count) put_four(out, i, v[n]);
    }
  }
}

// By a warpgroup that multiplies, at an image's end: among the sums' instructions there are no registers for it, and
// the warpgroup that stages has no time. `stride`: floats between two filters' outputs, which have been scaled by
// out.scale.
__device__ __forceinline__ void store_halves(const Dims& d, const float* outgoing, int stride, HalvesOut out) {
  const int plane = d.OH * d.OW, rank = threadIdx.x % kThreads, lane = rank % 32;
  out.scale = 1.0f;
  if (plane % 4 == 0 && stride == plane)
    return out.relu ? store_fours<true>(outgoing, d.M * plane, out, rank)
                    : store_fours<false>(outgoing, d.M * plane, out, rank);
  const bool pairs = plane % 2 == 0;
  for (int m = rank / 32; m < d.M; m += kWarps) {
    const float* from = outgoing + m * stride;
    for (int i = 2 * lane; pairs && i < plane; i += 64)
      put_two(out, m * plane + i, *reinterpret_cast<const float2*>(from + i));
    for (int i = lane; !pairs && i < plane; i += 32) put(out, m * plane + i, from[i]);
  }
}

}  // namespace few_filters
}  // namespace fops
