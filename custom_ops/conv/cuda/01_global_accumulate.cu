// Step 1: one thread an output (o), the running sum kept in global memory.
//
//   . . . . . .      # # #      . . . .     The thread walks over its window of the image and over the filter (#).
//   . # # # . .      # # #      . o . .     At every tap it reads the sum from memory, adds one product, and writes
//   . # # # . .  x   # # #  ->  . . . .     the sum back.
//   . # # # . .                             A block is 32 x 32 threads over one output plane.
//
// Costs: 2.9e8 outputs x 25 taps x 8 bytes are 58 GB of traffic for 1.15 GB of results; the caches hold most of it.
// fa2017 33.3 ms; fa2019 92.9 and 198.0 ms.
// Times in these files: NVIDIA H200, CUDA 13.0, 10,000 images, median of 20 or more runs. In the same run the output of
// fa2017 was filled in 0.248 ms (the limit) and cuDNN took 1.138 ms.
#include "conv/cuda/kernels.h"

namespace fops {
namespace {

constexpr int kSide = 32;  // blocks of 32 x 32 threads over the output plane, as the course began

template <typename X>
__global__ void global_accumulate(Dims d, const X* x, const float* k, float* y) {
  const long long tiles_h = ceil_div(d.OH, kSide), tiles_w = ceil_div(d.OW, kSide);
  const long long tasks = d.B * d.M * tiles_h * tiles_w;
  for (long long task = blockIdx.x; task < tasks; task += gridDim.x) {
    // Which output is this thread's: image b, filter m, row h, column w.
    const long long plane = task / (tiles_h * tiles_w), tile = task % (tiles_h * tiles_w);
    const long long b = plane / d.M, m = plane % d.M;
    const long long h = tile / tiles_w * kSide + threadIdx.y, w = tile % tiles_w * kSide + threadIdx.x;
    if (h >= d.OH || w >= d.OW) continue;

    // The idea. volatile: the compiler would otherwise keep the sum in a register, which is step 2.
    volatile float* out = y + (plane * d.OH + h) * d.OW + w;
    *out = 0.0f;
    for (int c = 0; c < d.C; ++c)
      for (int p = 0; p < d.K; ++p)
        for (int q = 0; q < d.K; ++q)
          *out = *out + static_cast<float>(x[((b * d.C + c) * d.H + h + p) * d.W + w + q]) *
                            k[((m * d.C + c) * d.K + p) * d.K + q];
  }
}

}  // namespace

fops_status run_global_accumulate(const fops_conv& c, const void* x, const float* k, float* y, void* stream) {
  const Dims d = dims(c);
  const unsigned grid = grid_for(d.B * d.M * ceil_div(d.OH, kSide) * ceil_div(d.OW, kSide));
  return with_input(c, x, [&](auto typed) {
    global_accumulate<<<grid, dim3(kSide, kSide), 0, static_cast<cudaStream_t>(stream)>>>(d, typed, k, y);
    return launched("global-accumulate");
  });
}

}  // namespace fops
