// For warpgroup_images.cu: stores an image's outputs, which are in shared memory, to y as halves.
#pragma once

#include <climits>

#include "conv/hopper/epilogue.cuh"
#include "conv/hopper/variants/warpgroup_images.cuh"

namespace fops::warpgroup_images {

// Stores kOnce times four outputs of a thread, from index `first` on. All loads precede the stores. Instead of outputs
// past index `last`, those at `last` are stored again, with the same values: a branch per four outputs would keep the
// loads and stores from overlapping.
template <int kOnce>
__device__ __forceinline__ void some_fours(const float* outgoing, const HalvesOut& out, float minimum, int first,
                                           int last) {
  constexpr int kStep = 4 * kThreads;
  float4 v[kOnce];
#pragma unroll
  for (int n = 0; n < kOnce; ++n) v[n] = *reinterpret_cast<const float4*>(outgoing + min(first + n * kStep, last));
#pragma unroll
  for (int n = 0; n < kOnce; ++n)
    put_four(out, min(first + n * kStep, last),
             {larger_or_nan(v[n].x, minimum), larger_or_nan(v[n].y, minimum), larger_or_nan(v[n].z, minimum),
              larger_or_nan(v[n].w, minimum)});
}

__device__ __forceinline__ void store_fours(const float* outgoing, int count, const HalvesOut& out, int rank) {
  constexpr int kStep = 4 * kThreads, kOnce = 4, kRest = 2;
  const float minimum = out.relu ? 0.0f : -INFINITY;
  int base = 0;
#pragma unroll 1
  for (; base + kOnce * kStep <= count; base += kOnce * kStep)
    some_fours<kOnce>(outgoing, out, minimum, base + 4 * rank, INT_MAX);
#pragma unroll 1
  for (; base < count; base += kRest * kStep) some_fours<kRest>(outgoing, out, minimum, base + 4 * rank, count - 4);
}

// Stores an image's outputs as halves. A consumer warpgroup calls this at an image's end: it has no registers for this
// while it multiplies, and the producer warpgroup has no time. `stride`: floats from one filter's outputs to the next.
// The outputs have already been scaled by out.scale.
__device__ __forceinline__ void store_halves(const Dims& d, const float* outgoing, int stride, HalvesOut out) {
  const int plane = d.OH * d.OW, rank = threadIdx.x % kThreads, lane = rank % 32;
  out.scale = 1.0f;
  if (plane % 4 == 0 && stride == plane) return store_fours(outgoing, d.M * plane, out, rank);
  const bool pairs = plane % 2 == 0;
  for (int m = rank / 32; m < d.M; m += kWarps) {
    const float* from = outgoing + m * stride;
    for (int i = 2 * lane; pairs && i < plane; i += 64)
      put_two(out, m * plane + i, *reinterpret_cast<const float2*>(from + i));
    for (int i = lane; !pairs && i < plane; i += 32) put(out, m * plane + i, from[i]);
  }
}

}  // namespace fops::warpgroup_images
