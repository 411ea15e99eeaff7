// Step 7: every size is a compile-time constant; there is one kernel per layer. The course of 2017 ended here.
//
//   registers: # # # # #     k[0] -> y[0]      The 25 pixels of a window are the same for all filters. Now the compiler
//              # # # # #     k[1] -> y[1]      can see that, and keeps them in registers.
//              # # # # #     ...               Addresses become a base and an immediate offset.
//
// Costs: supports only the layers of course_layers.h. With several channels the window's pixels change from channel to
// channel, and cannot stay in registers.
// Gains: one load (a weight) per multiply-add instead of two, with one channel.
#include "conv/cuda/course_layers.h"
#include "conv/cuda/kernels.h"

namespace fops {
namespace {

constexpr int kThreads = 1024;

template <typename L, typename X>
__global__ void __launch_bounds__(kThreads)
    compile_time(long long B, const X* __restrict__ x, const float* __restrict__ k, float* __restrict__ y) {
  extern __shared__ float image[];
  constexpr int pixels = L::C * L::H * L::W, taps = L::C * L::K * L::K, plane = L::OH * L::OW;
  float* weights = image + pixels;

  for (long long b = blockIdx.x; b < B; b += gridDim.x) {
    for (int i = threadIdx.x; i < pixels; i += kThreads) image[i] = static_cast<float>(x[b * pixels + i]);
    for (int i = threadIdx.x; i < L::M * taps; i += kThreads) weights[i] = k[i];
    __syncthreads();

    for (int i = threadIdx.x; i < plane; i += kThreads) {
      const int h = i / L::OW, w = i % L::OW;
      for (int m = 0; m < L::M; ++m) {
        float sum = 0.0f;
        for (int c = 0; c < L::C; ++c) {
          const float* window = image + (c * L::H + h) * L::W + w;
          const float* filter = weights + (m * L::C + c) * L::K * L::K;
#pragma unroll
          for (int p = 0; p < L::K; ++p)
#pragma unroll
            for (int q = 0; q < L::K; ++q) sum += window[p * L::W + q] * filter[p * L::K + q];
        }
        y[(b * L::M + m) * plane + i] = sum;
      }
    }
    __syncthreads();
  }
}

// Returns the shared memory per block. For fa2018's second layer it is 109 KB, more than a block can have on some GPUs.
size_t shared_bytes(const fops_conv& c) { return sizeof(float) * (image_floats(c) + weight_floats(c)); }

}  // namespace

bool takes_compile_time(const fops_conv& c) { return is_course_layer(c) && shared_fits(shared_bytes(c)); }

fops_status run_compile_time(const fops_conv& c, const void* x, const float* k, float* y, void* stream) {
  const size_t shared = shared_bytes(c);
  return with_course_layer(c, [&](auto layer) {
    return with_input(c, x, [&](auto typed) {
      auto* kernel = compile_time<decltype(layer), std::remove_cv_t<std::remove_pointer_t<decltype(typed)>>>;
      FOPS_TRY(allow_shared(kernel, shared));
      kernel<<<grid_for(c.B), kThreads, shared, static_cast<cudaStream_t>(stream)>>>(c.B, typed, k, y);
      return launched("compile-time");
    });
  });
}

}  // namespace fops
