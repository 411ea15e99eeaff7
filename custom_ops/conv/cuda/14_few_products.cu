// Step 14: few products an output. Inputs in registers, weights broadcast, one run of outputs a filter.
//
//   thread    inputs of its 4 outputs, C K K each: loaded once, kept     filter 0   o o o o   16 bytes
//             then filter after filter: C K K x 4 multiply-adds          filter 1   o o o o   16 bytes
//                                                                        ...
//
// A 1x1 layer or a 3x3 one over a single channel has 1 to 36 products an output: too few for tensor cores to earn what
// splitting costs, and the float32 pipes hide them behind the stores.
// Costs: an input is loaded for each tap that it meets, mostly from L1.
#include <algorithm>
#include <type_traits>

#include "conv/cuda/kernels.h"

namespace fops {
namespace {

constexpr int kThreads = 128;
constexpr int kMostProducts = 36;
constexpr long long kEnoughBlocks = 512;  // fewer do not keep a large GPU busy
constexpr size_t kWeights = 48 * 1024;  // bytes in shared memory that every GPU gives without being asked

// Products are padded to a multiple of four, a 16-byte read of weights.
constexpr int padded(int64_t products) { return static_cast<int>((products + 3) / 4 * 4); }

// A block takes kThreads kOutputs outputs of an image and `filters` of the filters: all of them, unless the pieces of a
// small batch would leave multiprocessors idle. With kVector a thread's outputs are neighbours, one
// 16-byte store; else they lie kThreads apart, so that a warp's stores still cover 128 bytes.
template <int kTaps, int kOutputs, bool kVector, typename X>
__global__ void __launch_bounds__(kThreads)
    few_products(Dims d, int filters, const X* __restrict__ x, const float* __restrict__ k, float* __restrict__ y) {
  extern __shared__ __align__(16) float weights[];  // [filter][kTaps]
  const int taps = d.C * d.K * d.K, plane = d.OH * d.OW;
  const int m0 = blockIdx.y * filters, own_filters = min(filters, d.M - m0);
  for (int i = threadIdx.x; i < own_filters * kTaps; i += kThreads)
    weights[i] = i % kTaps < taps ? k[(m0 + i / kTaps) * taps + i % kTaps] : 0.0f;
  __syncthreads();

  const long long pieces = ceil_div(plane, kThreads * kOutputs);
  for (long long task = blockIdx.x; task < d.B * pieces; task += gridDim.x) {
    const long long image = task / pieces;
    const int first = static_cast<int>(task - image * pieces) * kThreads * kOutputs;
    const int own = first + threadIdx.x * (kVector ? kOutputs : 1);
    const X* source = x + image * d.C * d.H * d.W;

    float in[kTaps][kOutputs];
#pragma unroll
    for (int o = 0; o < kOutputs; ++o) {
      const int at = min(own + o * (kVector ? 1 : kThreads), plane - 1), h = at / d.OW;
      const X* corner = source + h * d.W + (at - h * d.OW);
      int c = 0, p = 0, q = 0;  // of the tap
#pragma unroll
      for (int t = 0; t < kTaps; ++t) {
        in[t][o] = t < taps ? static_cast<float>(__ldg(corner + (c * d.H + p) * d.W + q)) : 0.0f;
        if (++q == d.K) q = 0, ++p;
        if (p == d.K) p = 0, ++c;
      }
    }

    float* out = y + (image * d.M + m0) * plane + own;
#pragma unroll 2
    for (int m = 0; m < own_filters; ++m, out += plane) {
      float sum[kOutputs] = {}, first_half[kOutputs] = {};
#pragma unroll
      for (int t = 0; t < kTaps; t += 4) {
        if (kTaps > 20 && t == kTaps / 8 * 4) {  // of 36 equal terms in one chain the error was 1.03 times the bound
#pragma unroll
          for (int o = 0; o < kOutputs; ++o) first_half[o] = sum[o], sum[o] = 0.0f;
        }
        const float4 w = *reinterpret_cast<const float4*>(weights + m * kTaps + t);
#pragma unroll
        for (int o = 0; o < kOutputs; ++o) {
          sum[o] = fmaf(in[t][o], w.x, sum[o]);
          sum[o] = fmaf(in[t + 1][o], w.y, sum[o]);
          sum[o] = fmaf(in[t + 2][o], w.z, sum[o]);
          sum[o] = fmaf(in[t + 3][o], w.w, sum[o]);
        }
      }
#pragma unroll
      for (int o = 0; o < kOutputs; ++o) sum[o] += first_half[o];
      if constexpr (kVector) {
        static_assert(kOutputs == 4 || kOutputs == 2, "");
        if (own >= plane) continue;
        if constexpr (kOutputs == 4)
          __stcs(reinterpret_cast<float4*>(out), make_float4(sum[0], sum[1], sum[2], sum[3]));
        else
          __stcs(reinterpret_cast<float2*>(out), make_float2(sum[0], sum[1]));
      } else {
#pragma unroll
        for (int o = 0; o < kOutputs; ++o)
          if (own + o * kThreads < plane) __stcs(out + o * kThreads, sum[o]);
      }
    }
  }
}

template <int kTaps>
fops_status run(const fops_conv& c, const void* x, const float* k, float* y, cudaStream_t stream) {
  constexpr int kOutputs = kTaps <= 20 ? 4 : 2;  // 80 registers of inputs at most
  const Dims d = dims(c);
  const bool vector = out_h(c) * out_w(c) % kOutputs == 0 && reinterpret_cast<uintptr_t>(y) % (4 * kOutputs) == 0;
  const long long tasks = d.B * ceil_div(1LL * d.OH * d.OW, kThreads * kOutputs);
  const int groups = static_cast<int>(std::clamp<long long>(kEnoughBlocks / tasks, 1, ceil_div(d.M, 4)));
  const int filters = static_cast<int>(ceil_div(d.M, groups));
  const size_t shared = sizeof(float) * filters * kTaps;
  return with_input(c, x, [&](auto typed) {
    using In = std::remove_cv_t<std::remove_pointer_t<decltype(typed)>>;
    auto* kernel = vector ? few_products<kTaps, kOutputs, true, In> : few_products<kTaps, kOutputs, false, In>;
    FOPS_TRY(allow_shared(kernel, shared));
    unsigned grid = 0;
    FOPS_TRY(resident_grid(kernel, kThreads, shared, tasks, &grid));
    const dim3 blocks(grid, static_cast<unsigned>(ceil_div(d.M, filters)));
    kernel<<<blocks, kThreads, shared, stream>>>(d, filters, typed, k, y);
    return launched("few-products");
  });
}

}  // namespace

bool takes_few_products(const fops_conv& c) {
  if (!takes_any(c) || weight_floats(c) > INT_MAX || c.C * c.K * c.K > kMostProducts) return false;
  return image_floats(c) <= INT_MAX && output_floats(c) <= INT_MAX &&
         sizeof(float) * c.M * padded(c.C * c.K * c.K) <= kWeights;
}

fops_status run_few_products(const fops_conv& c, const void* x, const float* k, float* y, void* stream) {
  const auto on = static_cast<cudaStream_t>(stream);
  switch (padded(c.C * c.K * c.K)) {
    case 4: return run<4>(c, x, k, y, on);
    case 8: return run<8>(c, x, k, y, on);
    case 12: return run<12>(c, x, k, y, on);
    case 16: return run<16>(c, x, k, y, on);
    case 20: return run<20>(c, x, k, y, on);
    case 24: return run<24>(c, x, k, y, on);
    case 28: return run<28>(c, x, k, y, on);
    case 32: return run<32>(c, x, k, y, on);
    default: return run<36>(c, x, k, y, on);
  }
}

}  // namespace fops
