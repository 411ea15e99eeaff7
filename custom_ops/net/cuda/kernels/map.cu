// Tanh and pool on their own, the change from float32 to halves, bias + tanh: what a stage does when no fused kernel
// takes its shape.
//
//   x x        one thread an output (four, on the way to halves), from one to four inputs
//   x x  -> o
//
// Costs: bound by memory, every value read and written once. Gains: every chain of layers can run on the device.
#include <algorithm>
#include <type_traits>

#include "gpu/isa/halves.cuh"
#include "gpu/isa/tanh.cuh"
#include "gpu/launch.h"
#include "net/cuda/dense.h"
#include "net/cuda/kernels/stages.h"

namespace fops {
namespace {

constexpr int kThreads = 256;

struct MapDims {
  long long n;
  int C, H, W, OH, OW;
};

// MXNet's max pool keeps a NaN that meets a number.
__device__ inline float max_or_nan(float a, float b) { return a > b || a != a ? a : b; }

template <typename X>
__device__ float map_at(const MapDims& d, const X* item, int i, bool tanh, bool pool) {
  float v;
  if (pool) {
    const int c = i / (d.OH * d.OW), at = i - c * d.OH * d.OW, h = at / d.OW, w = at - h * d.OW;
    const X* corner = item + (static_cast<long long>(c) * d.H + 2 * h) * d.W + 2 * w;
    v = max_or_nan(max_or_nan(static_cast<float>(corner[0]), static_cast<float>(corner[1])),
                   max_or_nan(static_cast<float>(corner[d.W]), static_cast<float>(corner[d.W + 1])));
  } else {
    v = static_cast<float>(item[i]);
  }
  return tanh ? tanh_scaled(v) : v;
}

template <typename X>
__global__ void __launch_bounds__(kThreads)
    map_to_float(MapDims d, bool tanh, bool pool, const X* __restrict__ x, float* __restrict__ y) {
  const long long in = 1LL * d.C * d.H * d.W;
  const int out = d.C * d.OH * d.OW;
  for (long long i = 1LL * blockIdx.x * kThreads + threadIdx.x; i < d.n * out; i += 1LL * gridDim.x * kThreads) {
    const long long item = i / out;
    y[i] = map_at(d, x + item * in, static_cast<int>(i - item * out), tanh, pool);
  }
}

// Four values a thread: rows are padded to a multiple of 64.
template <typename X>
__global__ void __launch_bounds__(kThreads)
    map_to_halves(MapDims d, bool tanh, bool pool, bool vector, int stride, float scale,
                  const X* __restrict__ x, __half* __restrict__ hi, __half* __restrict__ lo) {
  const long long in = 1LL * d.C * d.H * d.W;
  const int out = d.C * d.OH * d.OW, groups = stride / 4;
  for (long long i = 1LL * blockIdx.x * kThreads + threadIdx.x; i < d.n * groups; i += 1LL * gridDim.x * kThreads) {
    const long long item = i / groups;
    const int at = static_cast<int>(i - item * groups) * 4;
    float v[4] = {};
    if (sizeof(X) == 4 && vector && at < out) {
      const float4 four = *reinterpret_cast<const float4*>(x + item * in + at);
      v[0] = four.x, v[1] = four.y, v[2] = four.z, v[3] = four.w;
      if (tanh)
        for (float& e : v) e = tanh_scaled(e);
    } else {
#pragma unroll
      for (int e = 0; e < 4; ++e)
        if (at + e < out) v[e] = map_at(d, x + item * in, at + e, tanh, pool);
    }
    Split s[4];
#pragma unroll
    for (int e = 0; e < 4; ++e) s[e] = split(v[e] * scale);
    *reinterpret_cast<uint2*>(hi + i * 4) = make_uint2(pack(s[0].hi, s[1].hi), pack(s[2].hi, s[3].hi));
    *reinterpret_cast<uint2*>(lo + i * 4) = make_uint2(pack(s[0].lo, s[1].lo), pack(s[2].lo, s[3].lo));
  }
}

__global__ void __launch_bounds__(kThreads)
    bias_tanh(long long values, int units, const float* __restrict__ bias, bool tanh, float* __restrict__ y) {
  for (long long i = 1LL * blockIdx.x * kThreads + threadIdx.x; i < values; i += 1LL * gridDim.x * kThreads) {
    const float v = bias == nullptr ? y[i] : y[i] + bias[i % units];
    y[i] = tanh ? tanh_scaled(v) : v;
  }
}

// Enough blocks to fill any GPU; the kernels stride over the rest.
unsigned grid_over(long long threads) {
  return static_cast<unsigned>(std::min<long long>(ceil_div(threads, kThreads), 1 << 16));
}

}  // namespace

fops_status run_map(const Item& in, const Item& out, bool tanh, bool pool, int64_t n, const Tensor& x, const Tensor& y,
                    cudaStream_t stream) {
  const MapDims d{n, static_cast<int>(in.C), static_cast<int>(in.H), static_cast<int>(in.W),
                  static_cast<int>(out.H), static_cast<int>(out.W)};
  const auto run = [&](auto* typed) {
    if (y.form == Tensor::Form::float32) {
      map_to_float<<<grid_over(n * out.size()), kThreads, 0, stream>>>(d, tanh, pool, typed,
                                                                       static_cast<float*>(y.data));
    } else {
      const int64_t stride = dense_stride(out.size());
      const bool vector = !pool && out.size() % 4 == 0 && reinterpret_cast<uintptr_t>(typed) % 16 == 0;
      map_to_halves<<<grid_over(n * stride / 4), kThreads, 0, stream>>>(
          d, tanh, pool, vector, static_cast<int>(stride), y.scale, typed, static_cast<__half*>(y.data), y.lo);
    }
    return launched("map");
  };
  return x.form == Tensor::Form::uint8 ? run(static_cast<const uint8_t*>(x.data))
                                       : run(static_cast<const float*>(x.data));
}

fops_status run_bias_tanh(int64_t n, int64_t units, const float* bias, bool tanh, float* y, cudaStream_t stream) {
  bias_tanh<<<grid_over(n * units), kThreads, 0, stream>>>(n * units, static_cast<int>(units), bias, tanh, y);
  return launched("bias and tanh");
}

}  // namespace fops
