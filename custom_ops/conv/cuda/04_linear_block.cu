// Step 4: a block's 1,024 threads are numbered in a line along the outputs of a plane of any shape. There is one block
// per image and filter (B x M blocks).
//
//   row 0   0 0 0      Each digit stands for 8 outputs of a row of 24, and is the number of the warp that computes them.
//   row 1   0 1 1      576 outputs keep 18 of 32 warps busy; the other 14 have no work.
//   row 2   1 1 2      There is no tile, so no halo. In step 3 every warp with outputs also had idle threads.
//   row 3   2 2 2
//
// Costs: every block stages the whole image, so an image is staged 50 times for 50 filters.
// Gains: at most one warp with outputs has idle threads.
#include "conv/cuda/kernels.h"

namespace fops {
namespace {

constexpr int kThreads = 1024;

template <typename X>
__global__ void __launch_bounds__(kThreads)
    linear_block(Dims d, const X* __restrict__ x, const float* __restrict__ k, float* __restrict__ y) {
  extern __shared__ float image[];
  const int pixels = d.C * d.H * d.W, taps = d.C * d.K * d.K;
  float* weights = image + pixels;

  for (long long plane = blockIdx.x; plane < d.B * d.M; plane += gridDim.x) {
    const long long b = plane / d.M, m = plane % d.M;
    for (int i = threadIdx.x; i < pixels; i += kThreads) image[i] = static_cast<float>(x[b * pixels + i]);
    for (int i = threadIdx.x; i < taps; i += kThreads) weights[i] = k[m * taps + i];
    __syncthreads();

    for (int i = threadIdx.x; i < d.OH * d.OW; i += kThreads) {
      const int h = i / d.OW, w = i % d.OW;
      float sum = 0.0f;
      for (int c = 0; c < d.C; ++c)
        for (int p = 0; p < d.K; ++p)
          for (int q = 0; q < d.K; ++q)
            sum += image[(c * d.H + h + p) * d.W + w + q] * weights[(c * d.K + p) * d.K + q];
      y[plane * d.OH * d.OW + i] = sum;
    }
    __syncthreads();
  }
}

}  // namespace

bool takes_linear_block(const fops_conv& c) {
  return takes_any(c) && image_floats(c) <= 16000 && c.C * c.K * c.K <= 16000 - image_floats(c);
}

fops_status run_linear_block(const fops_conv& c, const void* x, const float* k, float* y, void* stream) {
  const Dims d = dims(c);
  const size_t shared = sizeof(float) * (image_floats(c) + d.C * d.K * d.K);
  return with_input(c, x, [&](auto typed) {
    auto* kernel = linear_block<std::remove_cv_t<std::remove_pointer_t<decltype(typed)>>>;
    FOPS_TRY(allow_shared(kernel, shared));
    kernel<<<grid_for(d.B * d.M), kThreads, shared, static_cast<cudaStream_t>(stream)>>>(d, typed, k, y);
    return launched("linear-block");
  });
}

}  // namespace fops
