// Any shape on Hopper: the road for values that have no good split.
#pragma once

#include "conv/cuda/12_tensor_core/any_shape/plan.h"
#include "gpu/isa/halves.cuh"

namespace fops {
namespace any_shape {

// Whether a value that has no good split enters the outputs at a position: what the staging asks, value by value.
template <typename X>
__device__ __noinline__ bool any_beyond(const Dims& d, const X* x, int corner, const ImageScale& by) {
  for (int c = 0; c < d.C; ++c)
    for (int p = 0; p < d.K; ++p)
      for (int q = 0; q < d.K; ++q) {
        const float v = static_cast<float>(x[corner + 1LL * c * d.H * d.W + p * d.W + q]);
        const bool large = (__half_as_ushort(__float2half_rn(v * by.scale)) & 0x7fff) >= 0x7c00;
        if (large || nonzero_bits(v) < nonzero_bits(by.least)) return true;
      }
  return false;
}

// Outputs of some filters at the positions of a task, in plain float32: infinities, NaN, and values too far apart for
// one scale. `offset` is where in y the outputs of filter 0 lie, or -1. A channel's taps are summed first, then the
// channels: a chain of C K K sums of one sign would lose more than the bound allows (plan.h).
template <typename X>
__device__ __noinline__ void plain_outputs(const Dims& d, const X* x, const float* k, float* y, const int* offsets,
                                           const int* corners, int positions, int m0, int filters, int thread,
                                           int threads) {
  const int taps = d.K * d.K;
  for (int i = thread; i < positions * filters; i += threads) {
    const int at = i % positions, m = m0 + i / positions;
    if (offsets[at] < 0 || m >= d.M) continue;
    float sum = 0.0f;
    for (int c = 0; c < d.C; ++c) {
      const X* corner = x + 1LL * corners[at] + 1LL * c * d.H * d.W;
      const float* weights = k + (1LL * m * d.C + c) * taps;
      float part = 0.0f;
      for (int p = 0; p < d.K; ++p)
        for (int q = 0; q < d.K; ++q) part += static_cast<float>(corner[p * d.W + q]) * weights[p * d.K + q];
      sum += part;
    }
    y[1LL * offsets[at] + 1LL * m * d.OH * d.OW] = sum;
  }
}

}  // namespace any_shape
}  // namespace fops
