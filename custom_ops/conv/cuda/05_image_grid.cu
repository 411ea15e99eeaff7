// Step 5: one block per image, which stages the image once and loops over all filters.
//
//   step 4   image -> block (image, filter 0)     step 5   image -> block -> filter 0
//            image -> block (image, filter 1)                             -> filter 1
//            ...                                                          -> ...
//
// Costs: the weights of all filters take shared memory in addition to the image.
// Gains: an image is copied to shared memory once, not M times (50 times for fa2017), and with it go the barriers.
// Layers with 12 or 24 filters gain less.
#include "conv/cuda/kernels.h"

namespace fops {
namespace {

constexpr int kThreads = 1024;

template <typename X>
__global__ void __launch_bounds__(kThreads)
    image_grid(Dims d, const X* __restrict__ x, const float* __restrict__ k, float* __restrict__ y) {
  extern __shared__ float image[];
  const int pixels = d.C * d.H * d.W, taps = d.C * d.K * d.K, plane = d.OH * d.OW;
  float* weights = image + pixels;

  for (long long b = blockIdx.x; b < d.B; b += gridDim.x) {
    for (int i = threadIdx.x; i < pixels; i += kThreads) image[i] = static_cast<float>(x[b * pixels + i]);
    for (int i = threadIdx.x; i < d.M * taps; i += kThreads) weights[i] = k[i];
    __syncthreads();

    for (int i = threadIdx.x; i < plane; i += kThreads) {
      const int h = i / d.OW, w = i % d.OW;
      for (int m = 0; m < d.M; ++m) {
        float sum = 0.0f;
        for (int c = 0; c < d.C; ++c)
          for (int p = 0; p < d.K; ++p)
            for (int q = 0; q < d.K; ++q)
              sum += image[(c * d.H + h + p) * d.W + w + q] * weights[((m * d.C + c) * d.K + p) * d.K + q];
        y[(b * d.M + m) * plane + i] = sum;
      }
    }
    __syncthreads();
  }
}

}  // namespace

// 24,000 floats are 96 KB. That is more than a block can have on sm_75 (64 KB); there the launch returns an error.
bool takes_image_in_shared(const fops_conv& c) {
  return takes_any(c) && image_floats(c) <= 24000 && weight_floats(c) <= 24000 - image_floats(c) &&
         output_floats(c) <= INT_MAX;
}

fops_status run_image_grid(const fops_conv& c, const void* x, const float* k, float* y, void* stream) {
  const Dims d = dims(c);
  const size_t shared = sizeof(float) * (image_floats(c) + weight_floats(c));
  return with_input(c, x, [&](auto typed) {
    auto* kernel = image_grid<std::remove_cv_t<std::remove_pointer_t<decltype(typed)>>>;
    FOPS_TRY(allow_shared(kernel, shared));
    kernel<<<grid_for(d.B), kThreads, shared, static_cast<cudaStream_t>(stream)>>>(d, typed, k, y);
    return launched("image-grid");
  });
}

}  // namespace fops
