// For steps 1 and 2: one thread per output, in blocks of 32 x 32 threads over each output plane. The two steps share
// this file, which finds a thread's output and the addresses of its inputs.
#pragma once

#include "conv/cuda/kernels.h"

namespace fops {

constexpr int kSide = 32;  // side of a block in threads, as in the course

template <typename X>
struct OwnOutput {
  const Dims& d;
  const X* window;      // the window's upper left pixel, in channel 0
  const float* filter;  // the filter's first weight
  float* place;         // the output

  __device__ float pixel(int c, int p, int q) const {
    return static_cast<float>(window[(1LL * c * d.H + p) * d.W + q]);
  }
  __device__ float weight(int c, int p, int q) const { return filter[(c * d.K + p) * d.K + q]; }
};

inline __host__ __device__ long long output_tiles(const Dims& d) {
  return d.B * d.M * ceil_div(d.OH, kSide) * ceil_div(d.OW, kSide);
}

// Calls f(output) for every output of this thread. A block computes a tile of a plane; if the grid has fewer blocks
// than there are tiles, a block computes several tiles.
template <typename X, typename F>
__device__ __forceinline__ void for_own_outputs(const Dims& d, const X* x, const float* k, float* y, F f) {
  const long long tiles_h = ceil_div(d.OH, kSide), tiles_w = ceil_div(d.OW, kSide);
  const long long tasks = d.B * d.M * tiles_h * tiles_w;
  for (long long task = blockIdx.x; task < tasks; task += gridDim.x) {
    const long long plane = task / (tiles_h * tiles_w), tile = task % (tiles_h * tiles_w);
    const long long h = tile / tiles_w * kSide + threadIdx.y, w = tile % tiles_w * kSide + threadIdx.x;
    if (h >= d.OH || w >= d.OW) continue;
    f(OwnOutput<X>{d, x + (plane / d.M * d.C * d.H + h) * d.W + w, k + plane % d.M * d.C * d.K * d.K,
                   y + (plane * d.OH + h) * d.OW + w});
  }
}

}  // namespace fops
