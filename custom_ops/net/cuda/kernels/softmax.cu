// Softmax over each item's values, with one warp per item: lane l handles values l, l + 32, l + 64 and so on.
//
//   largest = max x   ->   sum = sum of exp(x - largest)   ->   y = exp(x - largest) / sum
//
// Costs: three passes over an item's values, of which the last two find them in the cache. Gains: any number of values.
#include "gpu/launch.h"
#include "net/cuda/kernels/stages.h"

namespace fops {
namespace {

constexpr int kWarps = 8;

__device__ float warp_max(float v) {
  for (int offset = 16; offset > 0; offset /= 2) v = fmaxf(v, __shfl_xor_sync(0xffffffffu, v, offset));
  return v;
}
__device__ float warp_sum(float v) {
  for (int offset = 16; offset > 0; offset /= 2) v += __shfl_xor_sync(0xffffffffu, v, offset);
  return v;
}

template <typename X>
__global__ void __launch_bounds__(32 * kWarps)
    softmax(long long n, int size, const X* __restrict__ x, float* __restrict__ y) {
  const int lane = threadIdx.x % 32;
  for (long long i = 1LL * blockIdx.x * kWarps + threadIdx.x / 32; i < n; i += 1LL * gridDim.x * kWarps) {
    const X* from = x + i * size;
    float* to = y + i * size;
    float largest = -INFINITY, sum = 0.0f;
    for (int j = lane; j < size; j += 32) largest = fmaxf(largest, static_cast<float>(from[j]));
    largest = warp_max(largest);
    for (int j = lane; j < size; j += 32) sum += expf(static_cast<float>(from[j]) - largest);
    sum = warp_sum(sum);
    for (int j = lane; j < size; j += 32) to[j] = expf(static_cast<float>(from[j]) - largest) / sum;
  }
}

}  // namespace

fops_status run_softmax(int64_t n, int64_t size, const Tensor& x, float* y, cudaStream_t stream) {
  const unsigned grid = grid_for(ceil_div(n, kWarps));
  if (x.form == Tensor::Form::uint8)
    softmax<<<grid, 32 * kWarps, 0, stream>>>(n, static_cast<int>(size), static_cast<const uint8_t*>(x.data), y);
  else
    softmax<<<grid, 32 * kWarps, 0, stream>>>(n, static_cast<int>(size), static_cast<const float*>(x.data), y);
  return launched("softmax");
}

}  // namespace fops
