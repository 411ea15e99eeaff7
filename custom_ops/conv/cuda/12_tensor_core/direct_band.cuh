// What step 12's kernels do with what the matrix units cannot.
#pragma once

#include "conv/cuda/12_tensor_core/destination.cuh"

namespace fops {

// The way out for what has no split: infinities, NaN, and values too far apart for one scale. A band of an image in plain
// float32, whose rows' sums meet in a double: one long chain of sums would lose more than the bound allows.
// Rare, so only right.
template <typename X, typename Y>
__device__ void direct_band(const X* x, const float* k, Y y, int C, int H, int W, int M, int K, int row0,
                            int rows, int thread = threadIdx.x, int threads = blockDim.x) {
  const int OH = H - K + 1, OW = W - K + 1;
  for (int i = thread; i < M * rows * OW; i += threads) {
    const int m = i / (rows * OW), h = row0 + i / OW % rows, w = i % OW;
    double sum = 0.0;
    for (int c = 0; c < C; ++c)
      for (int p = 0; p < K; ++p) {
        float part = 0.0f;
        for (int q = 0; q < K; ++q)
          part += static_cast<float>(x[(c * H + h + p) * W + w + q]) * k[((m * C + c) * K + p) * K + q];
        sum += part;
      }
    put(y, output_at(y, m, h * OW + w, M, OH * OW), static_cast<float>(sum));
  }
}

}  // namespace fops
