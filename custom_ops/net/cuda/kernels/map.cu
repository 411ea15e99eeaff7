// Pool and activation, conversion from float32 to halves, and bias and activation as separate kernels, for stages that
// no fused kernel supports.
//
//   x x        one thread per output, or per four outputs in halves; an output comes from one input or a pool's window
//   x x  -> o
//
// Costs: memory traffic; each value is read and written in a separate pass. Gains: layers of any shape run on the
// device.
#include <algorithm>

#include "gpu/isa/halves.cuh"
#include "gpu/launch.h"
#include "net/cuda/kernels/dense/dense.h"
#include "net/cuda/kernels/activate.cuh"
#include "net/cuda/kernels/stages.h"

namespace fops {
namespace {

constexpr int kThreads = 256;

struct MapDims {
  long long n;
  int C, H, W, OH, OW;
  int size, stride;  // of the pool's windows
  Activation activation;
};

enum class Windows {
  none,
  pairs,  // 2x2 with stride 2, and the border cuts no window
  any
};

template <Windows windows, typename X>
__device__ float map_at(const MapDims& d, const X* item, int i) {
  const auto at = [&](int c, int h, int w) { return item + (static_cast<long long>(c) * d.H + h) * d.W + w; };
  const int c = i / (d.OH * d.OW), place = i - c * d.OH * d.OW, h = place / d.OW, w = place - h * d.OW;
  float v;
  if constexpr (windows == Windows::none) {
    v = static_cast<float>(item[i]);
  } else if constexpr (windows == Windows::pairs) {
    const X* corner = at(c, 2 * h, 2 * w);
    v = max_or_nan(max_or_nan(static_cast<float>(corner[0]), static_cast<float>(corner[1])),
                   max_or_nan(static_cast<float>(corner[d.W]), static_cast<float>(corner[d.W + 1])));
  } else {
    const int top = h * d.stride, left = w * d.stride;
    const int height = min(d.size, d.H - top), width = min(d.size, d.W - left);  // the border cuts the last windows
    const X* row = at(c, top, left);
    v = static_cast<float>(*row);
    for (int p = 0; p < height; ++p, row += d.W)
#pragma unroll 4
      for (int q = 0; q < width; ++q) v = max_or_nan(v, static_cast<float>(row[q]));
  }
  return activate(d.activation, v);
}

// Calls f for one item after another; the thread computes the same position in each item. So values that depend on the
// position, among them four divisions, are computed once, and loads of several items are in flight together.
template <typename F>
__device__ void for_items(const MapDims& d, F f) {
#pragma unroll 4
  for (long long item = blockIdx.y; item < d.n; item += gridDim.y) f(item);
}

template <Windows windows, typename X>
__global__ void __launch_bounds__(kThreads) map_to_float(MapDims d, const X* __restrict__ x, float* __restrict__ y) {
  const long long in = 1LL * d.C * d.H * d.W;
  const int out = d.C * d.OH * d.OW, at = blockIdx.x * kThreads + threadIdx.x;
  if (at >= out) return;
  for_items(d, [&](long long item) { y[item * out + at] = map_at<windows>(d, x + item * in, at); });
}

// Four values per thread, which is possible because a row of halves is padded to a multiple of 64 values.
template <Windows windows, typename X>
__global__ void __launch_bounds__(kThreads)
    map_to_halves(MapDims d, bool vector, int stride, float scale, const X* __restrict__ x, __half* __restrict__ hi,
                  __half* __restrict__ lo) {
  const long long in = 1LL * d.C * d.H * d.W;
  const int out = d.C * d.OH * d.OW, group = blockIdx.x * kThreads + threadIdx.x, at = 4 * group;
  if (group >= stride / 4) return;
  for_items(d, [&](long long item) {
    float v[4] = {};
    if (sizeof(X) == 4 && vector && at < out) {
      const float4 four = *reinterpret_cast<const float4*>(x + item * in + at);
      v[0] = four.x, v[1] = four.y, v[2] = four.z, v[3] = four.w;
      if (d.activation != Activation::none)
        for (float& e : v) e = activate(d.activation, e);
    } else {
#pragma unroll
      for (int e = 0; e < 4; ++e)
        if (at + e < out) v[e] = map_at<windows>(d, x + item * in, at + e);
    }
    Split s[4];
#pragma unroll
    for (int e = 0; e < 4; ++e) s[e] = split(v[e] * scale);
    *reinterpret_cast<uint2*>(hi + item * stride + at) = make_uint2(pack(s[0].hi, s[1].hi), pack(s[2].hi, s[3].hi));
    *reinterpret_cast<uint2*>(lo + item * stride + at) = make_uint2(pack(s[0].lo, s[1].lo), pack(s[2].lo, s[3].lo));
  });
}

__global__ void __launch_bounds__(kThreads) bias_activation(long long values, int units, const float* __restrict__ bias,
                                                            Activation activation, float* __restrict__ y) {
  for (long long i = 1LL * blockIdx.x * kThreads + threadIdx.x; i < values; i += 1LL * gridDim.x * kThreads) {
    const float v = bias == nullptr ? y[i] : y[i] + bias[i % units];
    y[i] = activate(activation, v);
  }
}

// Returns a number of blocks that fills any GPU; the kernel's threads stride over the remaining values.
unsigned grid_over(long long threads) {
  return static_cast<unsigned>(std::min<long long>(ceil_div(threads, kThreads), 1 << 16));
}

// Returns the grid for for_items: blocks in x cover an item's positions; blocks in y, as many as keep any GPU busy,
// stride over the items.
dim3 grid_of(int64_t places, int64_t n) {
  const int64_t x = ceil_div(places, kThreads);
  return dim3(static_cast<unsigned>(x), static_cast<unsigned>(std::min<int64_t>(n, ceil_div(1 << 13, x))));
}

template <Windows windows, typename X>
fops_status run(const MapDims& d, const Item& out, const X* x, const Tensor& y, cudaStream_t stream) {
  if (y.form == Tensor::Form::float32) {
    map_to_float<windows><<<grid_of(out.size(), d.n), kThreads, 0, stream>>>(d, x, static_cast<float*>(y.data));
  } else {
    const int64_t stride = dense_stride(out.size());
    const bool vector = windows == Windows::none && out.size() % 4 == 0 && reinterpret_cast<uintptr_t>(x) % 16 == 0;
    map_to_halves<windows><<<grid_of(stride / 4, d.n), kThreads, 0, stream>>>(
        d, vector, static_cast<int>(stride), y.scale, x, static_cast<__half*>(y.data), y.lo);
  }
  return launched("map");
}

template <typename X>
fops_status run_windows(const MapDims& d, const Pool& pool, const Item& out, const X* x, const Tensor& y,
                        cudaStream_t stream) {
  if (!pool) return run<Windows::none>(d, out, x, y, stream);
  return pool.pairs() ? run<Windows::pairs>(d, out, x, y, stream) : run<Windows::any>(d, out, x, y, stream);
}

}  // namespace

fops_status run_map(const Item& in, const Item& out, const Pool& pool, Activation activation, int64_t n,
                    const Tensor& x, const Tensor& y, cudaStream_t stream) {
  const auto side = [](int64_t size) { return static_cast<int>(size); };
  const MapDims d{n,           side(in.C),      side(in.H),        side(in.W), side(out.H),
                  side(out.W), side(pool.size), side(pool.stride), activation};
  return x.form == Tensor::Form::uint8 ? run_windows(d, pool, out, static_cast<const uint8_t*>(x.data), y, stream)
                                       : run_windows(d, pool, out, static_cast<const float*>(x.data), y, stream);
}

fops_status run_bias_activation(int64_t n, int64_t units, const float* bias, Activation activation, float* y,
                                cudaStream_t stream) {
  bias_activation<<<grid_over(n * units), kThreads, 0, stream>>>(n * units, static_cast<int>(units), bias, activation,
                                                                 y);
  return launched("bias and activation");
}

}  // namespace fops
