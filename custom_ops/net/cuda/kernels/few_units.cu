// The last dense layer, 10 units or so, in float32, with the softmax or activation behind it.
//
//   lanes   0 .. 7    8 .. 15   16 .. 23   24 .. 31     eight lanes share an item's inputs, 16 bytes a read;
//   item    0         1         2          3            shuffles add up the eight sums
//
// With many items eight lanes take two, and each weight that is loaded serves both.
// Costs: 30 shuffles an item (a warp an item would need 50). For 10,000 items of 500 values: 20 MB, 0.005 ms at 4.3
// TB/s, and 0.1 GFLOP, 0.002 ms.
// Gains: no matrix units and no padding for 10 units, and no kernel of its own for the softmax.
#include "gpu/isa/dependents.cuh"
#include "gpu/launch.h"
#include "net/cuda/kernels/activate.cuh"
#include "net/cuda/kernels/stages.h"

namespace fops {
namespace {

constexpr int kThreads = 128;
constexpr int kLanes = 8;  // an item
constexpr int64_t kFewItems = 1 << 15;  // up to so many: one item for eight lanes
constexpr int kTogether = 512;  // inputs whose products a lane adds one after the other, 64 of them: docs/precision.md

// The first kWide values from `from` on.
template <int kWide, typename X>
__device__ inline void load(const X* from, float (&to)[kWide]) {
  if constexpr (kWide == 4) {
    const float4 four = __ldg(reinterpret_cast<const float4*>(from));
    to[0] = four.x, to[1] = four.y, to[2] = four.z, to[3] = four.w;
  } else {
    to[0] = static_cast<float>(__ldg(from));
  }
}

template <int kUnits, int kItems, int kWide, typename X>
__global__ void __launch_bounds__(kThreads)
    few_units(long long n, int inputs, int units, const X* __restrict__ x, const float* __restrict__ w,
              const float* __restrict__ bias, Activation activation, bool softmax, float* __restrict__ y) {
  wait_for_previous_kernel();
  let_next_kernel_begin();
  const int lane = threadIdx.x % kLanes;
  const long long first = (1LL * blockIdx.x * kThreads + threadIdx.x) / kLanes * kItems;
  const X* row[kItems];
#pragma unroll
  for (int i = 0; i < kItems; ++i) row[i] = x + min(first + i, n - 1) * inputs;  // past the end: the last item again

  float sum[kItems][kUnits] = {};
  for (int begin = 0; begin < inputs; begin += kTogether) {
    const int end = min(begin + kTogether, inputs);
    float part[kItems][kUnits] = {};
#pragma unroll kItems == 1 ? 4 : 2
    for (int k = begin + lane * kWide; k < end; k += kLanes * kWide) {
      float v[kItems][kWide];
#pragma unroll
      for (int i = 0; i < kItems; ++i) load(row[i] + k, v[i]);
#pragma unroll
      for (int u = 0; u < kUnits; ++u) {
        float weight[kWide];
        load(w + static_cast<long long>(min(u, units - 1)) * inputs + k, weight);  // the surplus is not written
#pragma unroll
        for (int i = 0; i < kItems; ++i)
#pragma unroll
          for (int e = 0; e < kWide; ++e) part[i][u] = fmaf(v[i][e], weight[e], part[i][u]);
      }
    }
#pragma unroll
    for (int i = 0; i < kItems; ++i)
#pragma unroll
      for (int u = 0; u < kUnits; ++u) sum[i][u] += part[i][u];
  }
#pragma unroll
  for (int i = 0; i < kItems; ++i) {
    float largest = -INFINITY, total = 0.0f;
#pragma unroll
    for (int u = 0; u < kUnits; ++u) {
#pragma unroll
      for (int offset = kLanes / 2; offset > 0; offset /= 2)
        sum[i][u] += __shfl_xor_sync(0xffffffffu, sum[i][u], offset);
      if (bias != nullptr) sum[i][u] += __ldg(bias + min(u, units - 1));
      if (u < units) largest = fmaxf(largest, sum[i][u]);
    }
    if (softmax) {
#pragma unroll
      for (int u = 0; u < kUnits; ++u) {
        sum[i][u] = expf(sum[i][u] - largest);
        if (u < units) total += sum[i][u];
      }
    }
    if (first + i < n) {
#pragma unroll
      for (int u = 0; u < kUnits; ++u)  // every lane has every sum; it writes each eighth
        if (u < units && u % kLanes == lane) {
          const float v = softmax ? sum[i][u] / total : sum[i][u];
          y[(first + i) * units + u] = activate(activation, v);
        }
    }
  }
}

template <int kUnits, int kItems, int kWide, typename X>
fops_status run(int64_t n, int64_t inputs, int64_t units, const X* x, const float* w, const float* bias,
                Activation activation, bool softmax, float* y, cudaStream_t stream) {
  const unsigned grid = grid_for(ceil_div(ceil_div(n, kItems) * kLanes, kThreads));
  FOPS_TRY(launch_early(few_units<kUnits, kItems, kWide, X>, grid, 1, kThreads, 0, stream, n, static_cast<int>(inputs),
                        static_cast<int>(units), x, w, bias, activation, softmax, y));
  return launched("few units");
}

}  // namespace

fops_status run_few_units(int64_t n, int64_t inputs, int64_t units, const Tensor& x, const float* w, const float* bias,
                          Activation activation, bool softmax, float* y, cudaStream_t stream) {
  if (activation != Activation::none && softmax)
    return fail(FOPS_INVALID, "few units: an activation or softmax, not both");
  if (x.form == Tensor::Form::uint8) {
    const uint8_t* pixels = static_cast<const uint8_t*>(x.data);
    return run<16, 1, 1>(n, inputs, units, pixels, w, bias, activation, softmax, y, stream);
  }
  const float* from = static_cast<const float*>(x.data);
  const bool wide = inputs % 4 == 0 && reinterpret_cast<uintptr_t>(from) % 16 == 0;
  if (!wide) return run<16, 1, 1>(n, inputs, units, from, w, bias, activation, softmax, y, stream);
  // 10,000 items of 500 inputs take 22 us, with two items for eight lanes 24: the threads are too few.
  if (units <= 10 && n <= kFewItems)
    return run<10, 1, 4>(n, inputs, units, from, w, bias, activation, softmax, y, stream);
  if (units <= 10) return run<10, 2, 4>(n, inputs, units, from, w, bias, activation, softmax, y, stream);
  return run<16, 1, 4>(n, inputs, units, from, w, bias, activation, softmax, y, stream);
}

}  // namespace fops
