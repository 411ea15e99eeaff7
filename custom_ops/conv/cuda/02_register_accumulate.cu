// Step 2: the running sum moves to a register. The rest is step 1.
//
//   step 1    25 x ( load x, load k, load sum, store sum )
//   step 2    25 x ( load x, load k, sum += x * k )  store sum
//
// Costs: two loads a multiply-add, from the L1 cache.
// Gains: all of step 1's traffic but one store an output. fa2017 9.83 ms, 3.4 times faster than step 1; fa2019 21.0 and
// 42.6 ms.
#include "conv/cuda/kernels.h"

namespace fops {
namespace {

constexpr int kSide = 32;

template <typename X>
__global__ void register_accumulate(Dims d, const X* __restrict__ x, const float* __restrict__ k,
                                    float* __restrict__ y) {
  const long long tiles_h = ceil_div(d.OH, kSide), tiles_w = ceil_div(d.OW, kSide);
  const long long tasks = d.B * d.M * tiles_h * tiles_w;
  for (long long task = blockIdx.x; task < tasks; task += gridDim.x) {
    const long long plane = task / (tiles_h * tiles_w), tile = task % (tiles_h * tiles_w);
    const long long b = plane / d.M, m = plane % d.M;
    const long long h = tile / tiles_w * kSide + threadIdx.y, w = tile % tiles_w * kSide + threadIdx.x;
    if (h >= d.OH || w >= d.OW) continue;

    float sum = 0.0f;
    for (int c = 0; c < d.C; ++c)
      for (int p = 0; p < d.K; ++p)
        for (int q = 0; q < d.K; ++q)
          sum += static_cast<float>(x[((b * d.C + c) * d.H + h + p) * d.W + w + q]) *
                 k[((m * d.C + c) * d.K + p) * d.K + q];
    y[(plane * d.OH + h) * d.OW + w] = sum;
  }
}

}  // namespace

fops_status run_register_accumulate(const fops_conv& c, const void* x, const float* k, float* y, void* stream) {
  const Dims d = dims(c);
  const unsigned grid = grid_for(d.B * d.M * ceil_div(d.OH, kSide) * ceil_div(d.OW, kSide));
  return with_input(c, x, [&](auto typed) {
    register_accumulate<<<grid, dim3(kSide, kSide), 0, static_cast<cudaStream_t>(stream)>>>(d, typed, k, y);
    return launched("register-accumulate");
  });
}

}  // namespace fops
