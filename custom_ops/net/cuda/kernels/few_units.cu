// A dense layer of few units in float32, followed by a softmax or an activation: a network's last layer, with about 10
// units, or an earlier layer of up to 32 units.
//
//   a warp's lanes      0  1  2 .. 15 | 16 17 .. 31     each lane adds products of its inputs, for two items
//   lanes 16 apart      keep item 0   |  keep item 1    exchange sums: each gives away those of the other item
//   8, 4, 2, 1 apart    add up item 0 | add up item 1   in the end each lane has all sums of its item
//
// Each loaded weight serves both items. In batches of up to 1,024 items a warp computes one item, because more warps
// hide more of the loads' latency. In layers of up to 256 inputs and 10 units, half a warp takes the place of a warp.
// Costs: 25 shuffles per item of 10 units. For 10,000 items of 500 values: 20 MB and 0.1 GFLOP.
// Gains: 10 units are not padded to the size of a matrix tile, and the softmax needs no separate kernel.
#include <type_traits>

#include "gpu/isa/dependents.cuh"
#include "gpu/launch.h"
#include "net/cuda/kernels/activate.cuh"
#include "net/cuda/kernels/stages.h"

namespace fops {
namespace {

constexpr int kThreads = 128;
constexpr int64_t kFewItems = 1024;  // in batches of up to this number of items, a warp computes one item, not two
// In layers of up to this number of inputs and 10 units, half a warp computes the item or items. The choice does not
// depend on the number of items: the number of lanes changes the order of additions, and an item's result must be the
// same in any batch.
constexpr int64_t kFewInputs = 256;
// Each lane adds the products of its part of this number of inputs one after the other, 32 products with a full warp.
// With the five additions after them that is about the number of roundings that docs/precision.md allows (4 + 32 for
// 1,024 inputs).
constexpr int kTogether = 1024;

// Loads kWide values (4, with one 16-byte load, or 1) from `from` on.
template <int kWide, typename X>
__device__ inline void load(const X* from, float (&to)[kWide]) {
  if constexpr (kWide == 4) {
    const float4 four = __ldg(reinterpret_cast<const float4*>(from));
    to[0] = four.x, to[1] = four.y, to[2] = four.z, to[3] = four.w;
  } else {
    to[0] = static_cast<float>(__ldg(from));
  }
}

template <int kUnits, int kItems, int kLanes, int kWide, typename X>
__global__ void __launch_bounds__(kThreads)
    few_units(long long n, int inputs, int units, const X* __restrict__ x, const float* __restrict__ w,
              const float* __restrict__ bias, Activation activation, bool softmax, float* __restrict__ y) {
  wait_for_previous_kernel();
  let_next_kernel_begin();
  static_assert(kItems == 1 || kItems == 2, "");
  const int lane = threadIdx.x % kLanes;
  const long long first = (1LL * blockIdx.x * kThreads + threadIdx.x) / kLanes * kItems;
  const X* row[kItems];
#pragma unroll
  for (int i = 0; i < kItems; ++i) row[i] = x + min(first + i, n - 1) * inputs;  // past the end: repeats the last item

  constexpr int kAhead = kWide == 1 ? 8 : kItems == 1 ? 4 : 2;  // loads per item that a lane has in flight
  float sum[kItems][kUnits] = {};
  for (int begin = 0; begin < inputs; begin += kTogether) {
    const int end = min(begin + kTogether, inputs);
    float part[kItems][kUnits] = {};
#pragma unroll 1
    for (int k = begin + lane * kWide; k < end; k += kAhead * kLanes * kWide) {
      float v[kAhead][kItems][kWide];
#pragma unroll
      for (int n = 0; n < kAhead; ++n)
#pragma unroll
        for (int i = 0; i < kItems; ++i) {
          const int at = k + n * kLanes * kWide;
          if (at < end) {
            load(row[i] + at, v[n][i]);
          } else {
#pragma unroll
            for (int e = 0; e < kWide; ++e)
              v[n][i][e] = 0.0f;  // without these zeros the compiler branches at each load
          }
        }
#pragma unroll
      for (int n = 0; n < kAhead; ++n) {
        const int at = k + n * kLanes * kWide;
        if (at >= end) break;
#pragma unroll
        for (int u = 0; u < kUnits; ++u) {
          float weight[kWide];
          load(w + static_cast<long long>(min(u, units - 1)) * inputs + at,
               weight);  // sums past `units` are not stored
#pragma unroll
          for (int i = 0; i < kItems; ++i)
#pragma unroll
            for (int e = 0; e < kWide; ++e) part[i][u] = fmaf(v[n][i][e], weight[e], part[i][u]);
        }
      }
    }
#pragma unroll
    for (int i = 0; i < kItems; ++i)
#pragma unroll
      for (int u = 0; u < kUnits; ++u) sum[i][u] += part[i][u];
  }
  constexpr int kSharing = kLanes / kItems;  // number of lanes that have the sums of the same item in the end
  const bool upper = lane >= kSharing;
  const long long item = first + upper;
  if constexpr (kItems == 2) {
#pragma unroll
    for (int u = 0; u < kUnits; ++u) {
      const float kept = upper ? sum[1][u] : sum[0][u], given = upper ? sum[0][u] : sum[1][u];
      sum[0][u] = kept + __shfl_xor_sync(0xffffffffu, given, kSharing);
    }
  }
#pragma unroll
  for (int apart = kSharing / 2; apart > 0; apart /= 2)
#pragma unroll
    for (int u = 0; u < kUnits; ++u) sum[0][u] += __shfl_xor_sync(0xffffffffu, sum[0][u], apart);
  float largest = -INFINITY, total = 0.0f;
#pragma unroll
  for (int u = 0; u < kUnits; ++u) {
    if (bias != nullptr) sum[0][u] += __ldg(bias + min(u, units - 1));
    if (u < units) largest = fmaxf(largest, sum[0][u]);
  }
  if (softmax) {
#pragma unroll
    for (int u = 0; u < kUnits; ++u) {
      sum[0][u] = expf(sum[0][u] - largest);
      if (u < units) total += sum[0][u];
    }
  }
#pragma unroll
  for (int first = 0; first < kUnits; first += kSharing) {  // each lane writes its units, selected without a branch
    const int unit = first + lane % kSharing;
    float own = sum[0][first];
#pragma unroll
    for (int u = first + 1; u < min(first + kSharing, kUnits); ++u) own = unit == u ? sum[0][u] : own;
    if (item < n && unit < units) y[item * units + unit] = activate(activation, softmax ? own / total : own);
  }
}

template <int kUnits, int kItems, int kLanes, int kWide, typename X>
fops_status run(int64_t n, int64_t inputs, int64_t units, const X* x, const float* w, const float* bias,
                Activation activation, bool softmax, float* y, cudaStream_t stream) {
  const unsigned grid = grid_for(ceil_div(ceil_div(n, kItems) * kLanes, kThreads));
  FOPS_TRY(launch_early(few_units<kUnits, kItems, kLanes, kWide, X>, grid, 1, kThreads, 0, stream, n,
                        static_cast<int>(inputs), static_cast<int>(units), x, w, bias, activation, softmax, y));
  return launched("few units");
}

}  // namespace

fops_status run_few_units(int64_t n, int64_t inputs, int64_t units, const Tensor& x, const float* w, const float* bias,
                          Activation activation, bool softmax, float* y, cudaStream_t stream) {
  if (activation != Activation::none && softmax)
    return fail(FOPS_INVALID, "few units: an activation or softmax, not both");
  if (x.form == Tensor::Form::uint8) {
    const uint8_t* pixels = static_cast<const uint8_t*>(x.data);
    return units > 16 ? run<32, 1, 32, 1>(n, inputs, units, pixels, w, bias, activation, softmax, y, stream)
                      : run<16, 1, 32, 1>(n, inputs, units, pixels, w, bias, activation, softmax, y, stream);
  }
  const float* from = static_cast<const float*>(x.data);
  const bool wide = inputs % 4 == 0 && reinterpret_cast<uintptr_t>(from) % 16 == 0;
  if (!wide)
    return units > 16 ? run<32, 1, 32, 1>(n, inputs, units, from, w, bias, activation, softmax, y, stream)
                      : run<16, 1, 32, 1>(n, inputs, units, from, w, bias, activation, softmax, y, stream);
  if (units > 16)
    return n <= kFewItems ? run<32, 1, 32, 4>(n, inputs, units, from, w, bias, activation, softmax, y, stream)
                          : run<32, 2, 32, 4>(n, inputs, units, from, w, bias, activation, softmax, y, stream);
  if (units > 10) return run<16, 1, 32, 4>(n, inputs, units, from, w, bias, activation, softmax, y, stream);
  const auto run_ten = [&](auto lanes) {
    return n <= kFewItems ? run<10, 1, lanes, 4>(n, inputs, units, from, w, bias, activation, softmax, y, stream)
                          : run<10, 2, lanes, 4>(n, inputs, units, from, w, bias, activation, softmax, y, stream);
  };
  return inputs <= kFewInputs ? run_ten(std::integral_constant<int, 16>()) : run_ten(std::integral_constant<int, 32>());
}

}  // namespace fops
