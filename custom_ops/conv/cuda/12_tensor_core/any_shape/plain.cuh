// Any shape on Hopper: the road for values that have no good split.
#pragma once

#include "conv/cuda/12_tensor_core/any_shape/plan.h"
#include "conv/cuda/12_tensor_core/destination.cuh"
#include "gpu/isa/halves.cuh"

namespace fops {
namespace any_shape {

// Whether a value that has no good split enters the outputs at a position: what the staging asks, value by value.
template <typename X>
__device__ __noinline__ bool any_beyond(const Dims& d, const X* x, int corner, const ImageScale& by) {
  bool found = false;  // without a way out in between, so that loads overlap
  const int taps = d.C * d.K * d.K;
  int p = 0, q = 0;
  const X* at = x + corner;
#pragma unroll 8
  for (int i = 0; i < taps; ++i) {
    const float v = static_cast<float>(at[p * d.W + q]);
    const bool large = (__half_as_ushort(__float2half_rn(v * by.scale)) & 0x7fff) >= 0x7c00;
    found |= large || nonzero_bits(v) < nonzero_bits(by.least);
    if (++q == d.K) {
      q = 0;
      if (++p == d.K) p = 0, at += d.H * d.W;
    }
  }
  return found;
}

// Outputs of some filters at some positions, in plain float32: infinities, NaN, and values too far apart for one scale.
// `list` are places in `offsets` (positions in y: where filter 0's output lies) and `corners`. A thread computes one
// filter at kPlain positions at a time. The rows' sums meet in a double: a chain of C K K float32 sums would lose more
// than the bound allows (plan.h), and so did one of the channels (128 of them, 1x1: 1.4 times the bound).
constexpr int kPlain = 4;
template <typename X, typename Y>
__device__ __noinline__ void plain_outputs(const Dims& d, const X* x, const float* k, Y y, const int* offsets,
                                           const int* corners, const int* list, int count, int m0, int filters,
                                           int thread, int threads) {
  const int taps = d.K * d.K, m = m0 + thread % filters;
  if (m >= d.M) return;
  for (int i = thread / filters * kPlain; i < count; i += threads / filters * kPlain) {
    const X* corner[kPlain];
    double sum[kPlain] = {};
#pragma unroll
    for (int n = 0; n < kPlain; ++n) corner[n] = x + corners[list[min(i + n, count - 1)]];
    const float* weight = k + 1LL * m * d.C * taps;
    for (int c = 0; c < d.C; ++c) {
      for (int p = 0; p < d.K; ++p) {
        float part[kPlain] = {};
#pragma unroll 4
        for (int q = 0; q < d.K; ++q) {
          const float w = *weight++;
#pragma unroll
          for (int n = 0; n < kPlain; ++n) part[n] += static_cast<float>(corner[n][p * d.W + q]) * w;
        }
#pragma unroll
        for (int n = 0; n < kPlain; ++n) sum[n] += part[n];
      }
#pragma unroll
      for (int n = 0; n < kPlain; ++n) corner[n] += d.H * d.W;
    }
#pragma unroll
    for (int n = 0; n < kPlain; ++n)
      if (i + n < count)
        put(y, output_at(y, m, offsets[list[i + n]], d.M, d.OH * d.OW), static_cast<float>(sum[n]));
  }
}

}  // namespace any_shape
}  // namespace fops
