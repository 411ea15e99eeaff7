// Step 6: the two loops over the K x K taps are unrolled.
//
//   step 5   25 x ( count, address, load x, load k, multiply-add, branch )
//   step 6   address, load x, load k, load x, load k, ..., multiply-add, multiply-add, ...
//
// Costs: one compiled kernel for each K (3, 5 and 7).
// Gains: no loop counters and little address arithmetic; the loads of 25 multiply-adds can be issued ahead of them.
#include "conv/cuda/kernels.h"

namespace fops {
namespace {

constexpr int kThreads = 1024;

template <int K, typename X>
__global__ void __launch_bounds__(kThreads)
    unrolled(Dims d, const X* __restrict__ x, const float* __restrict__ k, float* __restrict__ y) {
  extern __shared__ float image[];
  const int pixels = d.C * d.H * d.W, taps = d.C * K * K, plane = d.OH * d.OW;
  float* weights = image + pixels;

  for (long long b = blockIdx.x; b < d.B; b += gridDim.x) {
    for (int i = threadIdx.x; i < pixels; i += kThreads) image[i] = static_cast<float>(x[b * pixels + i]);
    for (int i = threadIdx.x; i < d.M * taps; i += kThreads) weights[i] = k[i];
    __syncthreads();

    for (int i = threadIdx.x; i < plane; i += kThreads) {
      const int h = i / d.OW, w = i % d.OW;
      for (int m = 0; m < d.M; ++m) {
        float sum = 0.0f;
        for (int c = 0; c < d.C; ++c) {
          const float* window = image + (c * d.H + h) * d.W + w;
          const float* filter = weights + (m * d.C + c) * K * K;
#pragma unroll
          for (int p = 0; p < K; ++p)
#pragma unroll
            for (int q = 0; q < K; ++q) sum += window[p * d.W + q] * filter[p * K + q];
        }
        y[(b * d.M + m) * plane + i] = sum;
      }
    }
    __syncthreads();
  }
}

template <int K>
fops_status run(const fops_conv& c, const void* x, const float* k, float* y, void* stream) {
  const Dims d = dims(c);
  const size_t shared = sizeof(float) * (image_floats(c) + weight_floats(c));
  return with_input(c, x, [&](auto typed) {
    auto* kernel = unrolled<K, std::remove_cv_t<std::remove_pointer_t<decltype(typed)>>>;
    FOPS_TRY(allow_shared(kernel, shared));
    kernel<<<grid_for(d.B), kThreads, shared, static_cast<cudaStream_t>(stream)>>>(d, typed, k, y);
    return launched("unrolled");
  });
}

}  // namespace

bool takes_unrolled(const fops_conv& c) {
  return takes_image_in_shared(c) && (c.K == 3 || c.K == 5 || c.K == 7);
}

fops_status run_unrolled(const fops_conv& c, const void* x, const float* k, float* y, void* stream) {
  if (c.K == 3) return run<3>(c, x, k, y, stream);
  if (c.K == 5) return run<5>(c, x, k, y, stream);
  return run<7>(c, x, k, y, stream);
}

}  // namespace fops
