// Step 14: few products per output. A thread keeps the inputs of its outputs in registers, and computes these outputs
// for one filter after another; weights are broadcast reads of shared memory.
//
//   thread    loads C K K inputs for each of its 4 outputs, once         filter 0   o o o o   stores 16 bytes
//             then per filter: C K K x 4 multiply-adds                   filter 1   o o o o   stores 16 bytes
//                                                                        ...
//
// Layers such as 1x1, or 3x3 with one channel, have at most 36 products per output. That is too few for tensor cores,
// whose operands must be split first. The float32 pipes compute so few products while outputs are being stored.
// Costs: an input is loaded once per tap that uses it, mostly from L1.
#include <algorithm>
#include <type_traits>

#include "conv/cuda/kernels.h"
#include "gpu/divide.cuh"

namespace fops {
namespace {

constexpr int kThreads = 128;
constexpr int kMostProducts = 36;
// The number of blocks from which filters are not divided among more blocks: two per SM of an H200. With more blocks, a
// block would compute fewer filters for each load of its inputs.
constexpr long long kEnoughBlocks = 264;
constexpr int kLeastFilters = 4;          // minimum filters per block if filters are divided among blocks
constexpr int64_t kFewOutputs = 1 << 20;  // with up to this number of outputs a thread has one, so that threads are many
constexpr size_t kWeights = 48 * 1024;    // bytes of shared memory that a block can have on any GPU without a request

// Products are padded to a multiple of four, because weights are read 16 bytes at a time.
constexpr int padded(int64_t products) { return static_cast<int>((products + 3) / 4 * 4); }

// Computes, for kOutputs outputs, the sum over taps kBegin to kEnd - 1 of one filter. The taps are divided in two again
// and again until at most kChain are left, which are added one after the other. In one long chain every addition after
// a large first term can round in the same direction, which led to errors of 1.28 times the bound.
template <int kBegin, int kEnd, int kTaps, int kOutputs>
__device__ __forceinline__ void sum_in_pairs(const float (&in)[kTaps][kOutputs], const float* weights,
                                             float (&sum)[kOutputs]) {
  constexpr int kChain = kTaps <= 20 ? 4 : 12;  // short chains cost no time if there are few products
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

// A block computes kThreads * kOutputs positions, of one image or several, for `filters` filters: for all filters,
// unless a small batch would then leave SMs idle. If kVector, a thread's outputs are neighbours in a plane and are
// stored with one instruction; otherwise they are kThreads apart, so that a warp's stores still cover 128 bytes. The
// launch bound limits a thread to 128 registers; with more, the lower occupancy costs time.
template <int kTaps, int kOutputs, bool kVector, typename X>
__global__ void __launch_bounds__(kThreads, kTaps == 28 && kOutputs > 1 ? 4 : 0)
    few_products(Dims d, Divisor by_plane, int filters, const X* __restrict__ x, const float* __restrict__ k,
                 float* __restrict__ y) {
  extern __shared__ __align__(16) float weights[];  // [filter][kTaps]
  constexpr int kPlaces = kVector ? 1 : kOutputs;  // number of stores of a thread per filter
  const int taps = d.C * d.K * d.K, plane = d.OH * d.OW;
  const int m0 = blockIdx.y * filters, own_filters = min(filters, d.M - m0);
  const long long outputs = d.B * plane;  // outputs of one filter, in all images
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
    unsigned grid = 0;
    FOPS_TRY(resident_grid(kernel, kThreads, shared, tasks, &grid));
    const dim3 blocks(grid, static_cast<unsigned>(ceil_div(d.M, filters)));
    kernel<<<blocks, kThreads, shared, stream>>>(d, Divisor(static_cast<uint32_t>(plane)), filters, typed, k, y);
    return launched("few-products");
  });
}

template <int kTaps>
fops_status run(const fops_conv& c, const void* x, const float* k, float* y, cudaStream_t stream) {
  constexpr int kOutputs = kTaps <= 20 ? 4 : 2;  // the inputs take at most 80 registers
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
