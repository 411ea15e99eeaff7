// Step 14: few products per output. Inputs in registers, weights broadcast, one run of outputs per filter.
//
//   thread    inputs of its 4 outputs, C K K each: loaded once, kept     filter 0   o o o o   16 bytes
//             then filter after filter: C K K x 4 multiply-adds          filter 1   o o o o   16 bytes
//                                                                        ...
//
// A 1x1 layer or a 3x3 one over a single channel has 1 to 36 products per output: too few for tensor cores to make up
// for splitting. The float32 pipes hide them behind the stores.
// Costs: an input is loaded once per tap that uses it, mostly from L1.
#include <algorithm>
#include <type_traits>

#include "conv/cuda/kernels.h"
#include "gpu/divide.cuh"

namespace fops {
namespace {

constexpr int kThreads = 128;
constexpr int kMostProducts = 36;
// Two per SM of an H200. With more, a block has fewer filters per load of its inputs.
constexpr long long kEnoughBlocks = 264;
constexpr int kLeastFilters = 4;          // per block
constexpr int64_t kFewOutputs = 1 << 20;  // up to here a thread has one output, for more threads
constexpr size_t kWeights = 48 * 1024;    // bytes of shared memory per block on every GPU without a request

// Products are padded to a multiple of four, a 16-byte read of weights.
constexpr int padded(int64_t products) { return static_cast<int>((products + 3) / 4 * 4); }

// The sums of taps kBegin to kEnd of one filter for kOutputs outputs, added in pairs of pairs, down to short chains: in
// one chain every addition after a large first term can round the same way, which exceeded the bound by 1.28 times.
template <int kBegin, int kEnd, int kTaps, int kOutputs>
__device__ __forceinline__ void sum_in_pairs(const float (&in)[kTaps][kOutputs], const float* weights,
                                             float (&sum)[kOutputs]) {
  constexpr int kChain = kTaps <= 20 ? 4 : 12;  // few products are hidden behind the stores in any case
  if constexpr (kEnd - kBegin > kChain) {
    constexpr int kMiddle = kTaps <= 20 ? (kBegin + kEnd) / 2 / 4 * 4 : kBegin + kChain;
    float second[kOutputs];
    sum_in_pairs<kBegin, kMiddle>(in, weights, sum);
    sum_in_pairs<kMiddle, kEnd>(in, weights, second);
#pragma unroll
    for (int o = 0; o < kOutputs; ++o) sum[o] += second[o];
  } else {
#pragma unroll
    for (int o = 0; o < kOutputs; ++o) sum[o] = 0.0f;
#pragma unroll
    for (int t = kBegin; t < kEnd; t += 4) {
      const float4 w = *reinterpret_cast<const float4*>(weights + t);
#pragma unroll
      for (int o = 0; o < kOutputs; ++o) {
        sum[o] = fmaf(in[t][o], w.x, sum[o]);
        sum[o] = fmaf(in[t + 1][o], w.y, sum[o]);
        sum[o] = fmaf(in[t + 2][o], w.z, sum[o]);
        sum[o] = fmaf(in[t + 3][o], w.w, sum[o]);
      }
    }
  }
}

// A block takes kThreads kOutputs outputs, of one image or several, and `filters` filters: all of them, unless the
// pieces of a small batch would leave SMs idle. With kVector a thread's outputs are neighbours in a plane, one 16-byte
// store; else they are kThreads apart, so that a warp's stores still cover 128 bytes.
// The bound is 128 registers: versions with more are slower, by their occupancy.
template <int kTaps, int kOutputs, bool kVector, typename X>
__global__ void __launch_bounds__(kThreads, kTaps == 28 && kOutputs > 1 ? 4 : 0)
    few_products(Dims d, Divisor by_plane, int filters, const X* __restrict__ x, const float* __restrict__ k,
                 float* __restrict__ y) {
  extern __shared__ __align__(16) float weights[];  // [filter][kTaps]
  constexpr int kPlaces = kVector ? 1 : kOutputs;  // places that a thread stores to per filter
  const int taps = d.C * d.K * d.K, plane = d.OH * d.OW;
  const int m0 = blockIdx.y * filters, own_filters = min(filters, d.M - m0);
  const long long outputs = d.B * plane;  // outputs per filter
  for (long long first = blockIdx.x * (1LL * kThreads * kOutputs), task = 0; first < outputs;
       first += gridDim.x * (1LL * kThreads * kOutputs), ++task) {
    const long long image = first / plane;
    const unsigned before = static_cast<unsigned>(first - image * plane);
    const int own_outputs = static_cast<int>(min(outputs - first, 1LL * kThreads * kOutputs));

    float in[kTaps][kOutputs];
    float* out[kPlaces];
#pragma unroll
    for (int o = 0; o < kOutputs; ++o) {
      const int own = min(threadIdx.x * (kVector ? kOutputs : 1) + o * (kVector ? 1 : kThreads), own_outputs - 1);
      const unsigned further = by_plane.divide(before + own), at = before + own - further * plane, h = at / d.OW;
      const X* corner = x + (image + further) * d.C * d.H * d.W + h * d.W + (at - h * d.OW);
      if (o < kPlaces) out[o] = y + ((image + further) * d.M + m0) * plane + at;
      int c = 0, p = 0, q = 0;  // the tap
#pragma unroll
      for (int t = 0; t < kTaps; ++t) {
        in[t][o] = t < taps ? static_cast<float>(__ldg(corner + (c * d.H + p) * d.W + q)) : 0.0f;
        if (++q == d.K) q = 0, ++p;
        if (p == d.K) p = 0, ++c;
      }
    }

    if (task == 0) {  // loads the weights while the first inputs are in flight
      for (int i = threadIdx.x; i < own_filters * kTaps; i += kThreads)
        weights[i] = i % kTaps < taps ? k[(m0 + i / kTaps) * taps + i % kTaps] : 0.0f;
      __syncthreads();
    }

#pragma unroll 2
    for (int m = 0; m < own_filters; ++m) {
      float sum[kOutputs];
      sum_in_pairs<0, kTaps>(in, weights + m * kTaps, sum);
      if constexpr (kVector) {
        static_assert(kOutputs == 4 || kOutputs == 2, "");
        if (threadIdx.x * kOutputs < own_outputs) {
          if constexpr (kOutputs == 4)
            __stcs(reinterpret_cast<float4*>(out[0]), make_float4(sum[0], sum[1], sum[2], sum[3]));
          else
            __stcs(reinterpret_cast<float2*>(out[0]), make_float2(sum[0], sum[1]));
        }
      } else {
#pragma unroll
        for (int o = 0; o < kOutputs; ++o)
          if (threadIdx.x + o * kThreads < own_outputs) __stcs(out[o], sum[o]);
      }
#pragma unroll
      for (int o = 0; o < kPlaces; ++o) out[o] += plane;
    }
  }
}

template <int kTaps, int kOutputs>
fops_status launch(const fops_conv& c, const void* x, const float* k, float* y, cudaStream_t stream) {
  const Dims d = dims(c);
  const int plane = d.OH * d.OW;
  const bool vector = kOutputs > 1 && plane % kOutputs == 0 && reinterpret_cast<uintptr_t>(y) % (4 * kOutputs) == 0;
  const long long tasks = ceil_div(d.B * plane, 1LL * kThreads * kOutputs);
  const int groups = static_cast<int>(std::clamp<long long>(kEnoughBlocks / tasks, 1, ceil_div(d.M, kLeastFilters)));
  const int filters = static_cast<int>(ceil_div(d.M, groups));
  const size_t shared = sizeof(float) * filters * kTaps;
  return with_input(c, x, [&](auto typed) {
    using In = std::remove_cv_t<std::remove_pointer_t<decltype(typed)>>;
    auto* kernel = few_products<kTaps, kOutputs, false, In>;
    if constexpr (kOutputs > 1)
      if (vector) kernel = few_products<kTaps, kOutputs, true, In>;
    FOPS_TRY(allow_shared(kernel, shared));
    unsigned grid = 0;
    FOPS_TRY(resident_grid(kernel, kThreads, shared, tasks, &grid));
    const dim3 blocks(grid, static_cast<unsigned>(ceil_div(d.M, filters)));
    kernel<<<blocks, kThreads, shared, stream>>>(d, Divisor(static_cast<uint32_t>(plane)), filters, typed, k, y);
    return launched("few-products");
  });
}

template <int kTaps>
fops_status run(const fops_conv& c, const void* x, const float* k, float* y, cudaStream_t stream) {
  constexpr int kOutputs = kTaps <= 20 ? 4 : 2;  // at most 80 registers of inputs
  const bool few = c.B <= kFewOutputs && c.B * output_floats(c) <= kFewOutputs;
  return few ? launch<kTaps, 1>(c, x, k, y, stream) : launch<kTaps, kOutputs>(c, x, k, y, stream);
}

}  // namespace

bool takes_few_products(const fops_conv& c) {
  if (!takes_any(c) || weight_floats(c) > INT_MAX || c.C * c.K * c.K > kMostProducts) return false;
  return image_floats(c) <= INT_MAX && output_floats(c) <= INT_MAX - 4 * kThreads &&
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
