// Convolution of one channel, 2x2 max pool and activation in one kernel: a network's first layer.
//
//   A (16 rows): 4 filters x 2x2 outputs     B: (K+1) x 8 pixels of 8 windows      D: 4 filters x 2x2 outputs
//   in registers for all (K+1)/2 steps    x  | w0 | w1 | ... | w7 |             =  of | w0 | w1 | ... | w7 |
//
// All four outputs of a pool's window use the same pixels. So a column of B is a window's pixels, the rows of A are
// four shifted copies of each filter, and the pool is a maximum over rows of D. A block is persistent and processes one
// image after another: while it multiplies one, the next is loaded into shared memory. A warp keeps the weights of four
// filters (a tile) in registers; several warps may have the same filters and share the windows.
// Costs: for K = 7 or 5, at least 1 or 3 of the 8 pixels per row are multiplied by zero weights. Gains: an image is
// read once, and activation and stores are needed for only a quarter of the outputs.
#include "gpu/band_scale.cuh"
#include "gpu/divide.cuh"
#include "gpu/isa/bulk_copy.cuh"
#include "gpu/isa/halves.cuh"
#include "gpu/isa/mma.cuh"
#include "gpu/launch.h"
#include "net/cuda/kernels/activate.cuh"
#include "net/cuda/kernels/conv_pool/conv_pool.h"
#include "net/cuda/kernels/conv_pool/layout.h"
#include "net/cuda/kernels/dense/dense.h"

namespace fops {
namespace {

constexpr int kWarps = 12, kThreads = 32 * kWarps, kFilters = conv_pool::FirstLayer::kFilters;

struct Sizes {
  long long n, image, item;  // number of images; pixels per image; values from one image's outputs to the next
  int W, K, M,               // width of an image; side of a filter; number of filters
      PW, windows;           // windows of the pool: per row, and per filter
  int pixels;                // pixels of the rows that windows use; both the rows and the columns are even in number
  int quads;                 // quads of 2x2 pixels in shared memory: those of an image, and zeros after them
  int tiles, share;          // number of tiles of four filters; number of warps that share a tile
  uint32_t inverse_PW, inverse_half_W;
  Activation activation;
  float scale;  // scale of the output halves
  bool vector;  // whether images begin on 16-byte (float32) or 4-byte (uint8) boundaries
};

template <typename X>
__device__ void fetch(const Sizes& s, const X* image, X* raw) {
  constexpr int kWide = 4;  // pixels per copy
  if (!s.vector) {
    for (int i = threadIdx.x; i < s.pixels; i += kThreads) raw[i] = image[i];
    return;
  }
  // A warp's copies begin on a 128-byte line, which is fastest if they cross the bus to the host.
  const int skew = static_cast<int>(reinterpret_cast<uintptr_t>(image) % 128 / sizeof(X));
  for (int i = kWide * static_cast<int>(threadIdx.x) - skew; i < s.pixels; i += kWide * kThreads) {
    if (i < 0) continue;
    if constexpr (sizeof(X) == 1)
      copy_async_4(shared_address(raw + i), image + i);
    else
      copy_async_16(reinterpret_cast<__half*>(raw + i), reinterpret_cast<const __half*>(image + i), true);
  }
}

// Converts an image to halves, [H / 2][W / 2] quads of 2x2 pixels: a word of the upper two pixels and a word of the
// lower two. If kResidue, also stores the rounding errors in `lo`. Returns whether all pixels that this thread
// converted are exact in half precision.
template <bool kResidue>
__device__ bool stage(const Sizes& s, const float* raw, float scale, uint2* hi, uint2* lo) {
  bool exact = true;
  const int half_W = s.W / 2;
  for (int i = threadIdx.x; i < s.pixels / 4; i += kThreads) {
    const float2* from = reinterpret_cast<const float2*>(raw) + i + divide(i, s.inverse_half_W) * half_W;
    const float2 upper = from[0], lower = from[half_W];
    uint2 high, low;
    exact &= round_pair<kResidue, true, true>(upper.x * scale, upper.y * scale, &high.x, &low.x);
    exact &= round_pair<kResidue, true, true>(lower.x * scale, lower.y * scale, &high.y, &low.y);
    hi[i] = high;
    if (kResidue) lo[i] = low;
  }
  return exact;
}
__device__ inline uint32_t bytes_to_halves(uint32_t two) {
  const uint32_t biased = __byte_perm(two, 0x64, 0x4140);  // as a half, 0x6400 | b is 1024 + b
  return bits(__hsub2(reinterpret_cast<const __half2&>(biased), __float2half2_rn(1024.0f)));
}
__device__ void stage(const Sizes& s, const uint8_t* raw, uint2* hi) {
  const int half_W = s.W / 2;
  for (int i = threadIdx.x; i < s.pixels / 4; i += kThreads) {
    const uint16_t* from = reinterpret_cast<const uint16_t*>(raw) + i + divide(i, s.inverse_half_W) * half_W;
    hi[i] = make_uint2(bytes_to_halves(from[0]), bytes_to_halves(from[half_W]));
  }
}

__device__ inline void put(const Sizes&, float* y, __half*, int at, float v) { y[at] = v; }
__device__ inline void put(const Sizes& s, __half* y, __half* y_lo, int at, float v) {
  const Split parts = split(v * s.scale);
  y[at] = parts.hi, y_lo[at] = parts.lo;
}

// The weights of a warp's four filters as mma operands A, high and low parts: [step][register].
template <int kSteps>
struct Weights {
  uint32_t high[kSteps][4], low[kSteps][4];
  float unscale;  // factor that undoes the scale of this lane's filter
  __device__ Weights(const Sizes& s, const uint32_t* packed, int tile) {
    const int lane = threadIdx.x % 32;
    const uint4* from = reinterpret_cast<const uint4*>(packed) + tile * 2 * kSteps * 32 + lane;
#pragma unroll
    for (int step = 0; step < kSteps; ++step) {
      const uint4 h = __ldg(from + step * 32), l = __ldg(from + (kSteps + step) * 32);
      high[step][0] = h.x, high[step][1] = h.y, high[step][2] = h.z, high[step][3] = h.w;
      low[step][0] = l.x, low[step][1] = l.y, low[step][2] = l.z, low[step][3] = l.w;
    }
    unscale = __uint_as_float(__ldg(packed + s.tiles * 2 * kSteps * 32 * 4 + tile * kFilters + lane / 4 % 4));
  }
};

// Computes a warp's outputs of an image. Lane 4g + t loads pixels of window g of eight, and computes the output of
// window 2t or 2t + 1 for filter g % 4. If kExact, the low parts of the pixels are all zero, and all products form one
// chain of additions, beginning with the weights' low parts. Otherwise a chain has at most two steps of high parts
// times high parts (docs/precision.md), and products with low parts of pixels have separate accumulators.
template <bool kExact, int kSteps, typename Y>
__device__ __forceinline__ void multiply(const Sizes& s, const Weights<kSteps>& weights, float image_unscale,
                                         const uint2* hi, const uint2* lo, int part, int tile, Y* y, __half* y_lo) {
  constexpr int kAtOnce = kExact ? 2 : 1;  // groups of 8 windows that a warp computes together
  constexpr int kChain = kExact ? kSteps : 2, kChains = (kSteps + kChain - 1) / kChain;
  const int lane = threadIdx.x % 32, g = lane / 4, t = lane % 4, row = s.W / 2, row_behind = row - s.PW;
  const bool right = g >= 4;
  const int m = tile * kFilters + g % 4, mine = 2 * t + right;
  const int real = m < s.M ? s.windows - mine
                           : 0;  // this lane has an output in groups of windows that begin below this
  y += m * s.windows + mine, y_lo += m * s.windows + mine;
  const bool tanh = s.activation == Activation::tanh;
  const float least = s.activation == Activation::relu ? 0.0f : -INFINITY;
  for (int first = part * 8 * kAtOnce; first < s.windows; first += s.share * 8 * kAtOnce) {
    uint2 in[kAtOnce][kSteps], rest[kAtOnce][kSteps];
#pragma unroll
    for (int n = 0; n < kAtOnce; ++n) {
      const int window = min(first + 8 * n + g, s.windows - 1);
      const int corner = divide(window, s.inverse_PW) * row_behind + window + t;
#pragma unroll
      for (int step = 0; step < kSteps; ++step) {
        in[n][step] = hi[corner + step * row];
        if (!kExact) rest[n][step] = lo[corner + step * row];
      }
    }
    float sum[kAtOnce][kChains][4], small[kAtOnce][4];
#pragma unroll
    for (int step = 0; step < kSteps; ++step)
#pragma unroll
      for (int n = 0; n < kAtOnce; ++n) {
        const uint2 v = in[n][step];
        mma_chain(step == 0, sum[n][0], weights.low[step], v.x, v.y);
        if (kExact) continue;
        mma_chain(step == 0, small[n], weights.high[step], rest[n][step].x, rest[n][step].y);
      }
#pragma unroll
    for (int step = 0; step < kSteps; ++step)
#pragma unroll
      for (int n = 0; n < kAtOnce; ++n) {
        const uint2 v = in[n][step];
        mma_chain(step > 0 && step % kChain == 0, sum[n][step / kChain], weights.high[step], v.x, v.y);
      }
#pragma unroll
    for (int n = 0; n < kAtOnce; ++n) {
      float (&v)[4] = sum[n][0];
      if (!kExact)
#pragma unroll
        for (int e = 0; e < 4; ++e) v[e] = fmaf(small[n][e], 1.0f / kLowScale, v[e] + sum[n][kChains - 1][e]);
      // The maxima over the rows of windows 2t and 2t + 1, in one column; lane ^ 16 has those of the other column.
      const float even = fmaxf(v[0], v[2]), odd = fmaxf(v[1], v[3]);
      const float other = __shfl_xor_sync(0xffffffffu, right ? even : odd, 16);
      float largest = fmaxf(fmaxf(right ? odd : even, other) * weights.unscale * image_unscale, least);
      if (tanh) largest = tanh_scaled(largest);
      if (first + 8 * n < real) put(s, y, y_lo, first + 8 * n, largest);
    }
  }
}

// Computes an image in float32 without tensor cores, because it has an infinity, a NaN, or values too far apart for one
// scale. The products of a row of taps are added up first, so that chains of additions are short (docs/precision.md).
template <typename Y>
__device__ __noinline__ void direct(const Sizes& s, const float* image, const float* k, Y* y, __half* y_lo) {
  for (int i = threadIdx.x; i < s.M * s.windows; i += kThreads) {
    const int m = i / s.windows, at = i % s.windows;
    float largest = 0.0f;
    for (int place = 0; place < 4; ++place) {
      const float* corner = image + (at / s.PW * 2 + place / 2) * s.W + at % s.PW * 2 + place % 2;
      float sum = 0.0f;
      for (int p = 0; p < s.K; ++p) {
        float row = 0.0f;
        for (int q = 0; q < s.K; ++q) row = fmaf(corner[p * s.W + q], k[(m * s.K + p) * s.K + q], row);
        sum += row;
      }
      largest = place == 0 ? sum : max_or_nan(largest, sum);
    }
    put(s, y, y_lo, i, activate(s.activation, largest));
  }
}

template <int kSteps, typename X, typename Y>
__global__ void __launch_bounds__(kThreads, 2)
    first_layer(const __grid_constant__ Sizes s, const X* __restrict__ x, const float* __restrict__ k,
                const uint32_t* __restrict__ packed, Y* __restrict__ y, __half* __restrict__ y_lo) {
  constexpr bool kBytes = sizeof(X) == 1;  // uint8 pixels are always exact in half precision
  extern __shared__ __align__(16) uint2 shared[];
  __shared__ unsigned scratch;
  uint2 *hi = shared, *lo = hi + s.quads;
  X* raw = reinterpret_cast<X*>(kBytes ? lo : lo + s.quads);
  for (int i = s.pixels / 4 + threadIdx.x; i < s.quads; i += kThreads) {
    hi[i] = make_uint2(0, 0);
    if (!kBytes) lo[i] = make_uint2(0, 0);
  }
  const int warp = threadIdx.x / 32, tile = warp / s.share, part = warp % s.share;
  const Weights<kSteps> weights(s, packed, min(tile, s.tiles - 1));
  if (blockIdx.x < s.n) fetch(s, x + blockIdx.x * s.image, raw);
  for (long long image = blockIdx.x; image < s.n; image += gridDim.x) {
    copy_async_wait_all();
    __syncthreads();  // also waits until all warps have multiplied the previous image
    bool exact = true, good = true;
    float unscale = 1.0f;
    if constexpr (kBytes) {
      stage(s, raw, hi);
      __syncthreads();
    } else {
      exact = !__syncthreads_or(!stage<false>(s, raw, kImageScale, hi, lo));
      unscale = 1.0f / kImageScale;
      if (!exact) {
        const float scale = band_scale<kThreads>(raw, s.pixels, min_scaled(static_cast<float>(s.K * s.K)), &scratch);
        good = scale != 0.0f;
        if (good) stage<true>(s, raw, scale, hi, lo), unscale = 1.0f / scale;
        __syncthreads();
      }
    }
    if (image + gridDim.x < s.n) fetch(s, x + (image + gridDim.x) * s.image, raw);
    Y* to = y + image * s.item;
    __half* to_lo = y_lo + image * s.item;
    if (!good) {
      if constexpr (!kBytes) direct(s, x + image * s.image, k, to, to_lo);
    } else if (tile < s.tiles) {
      if (exact)
        multiply<true>(s, weights, unscale, hi, lo, part, tile, to, to_lo);
      else
        multiply<false>(s, weights, unscale, hi, lo, part, tile, to, to_lo);
    }
  }
}

size_t shared_bytes(const Sizes& s, bool bytes) {
  return bytes ? 8 * s.quads + (s.pixels + 15) / 16 * 16 : 16 * s.quads + 4 * s.pixels;
}

Sizes sizes_of(const Stage& stage) {
  Sizes s = {};
  s.W = static_cast<int>(stage.in.W), s.K = static_cast<int>(stage.K), s.M = static_cast<int>(stage.out.C);
  s.PW = static_cast<int>(stage.out.W), s.windows = static_cast<int>(stage.out.H * stage.out.W);
  s.pixels = static_cast<int>(2 * stage.out.H + stage.K - 1) * s.W;
  s.quads = (s.pixels / 4 + 4 + 1) / 2 * 2;
  s.image = stage.in.H * stage.in.W;
  s.tiles = (s.M + kFilters - 1) / kFilters;
  s.share = kWarps / s.tiles;
  return s;
}

template <int kSteps, typename X, typename Y>
fops_status launch(Sizes s, const ConvPoolWeights& weights, const float* k, const Tensor& x, const Tensor& y,
                   cudaStream_t stream) {
  auto* kernel = first_layer<kSteps, X, Y>;
  s.vector = s.image % 4 == 0 && reinterpret_cast<uintptr_t>(x.data) % (4 * sizeof(X)) == 0;
  const size_t shared = shared_bytes(s, sizeof(X) == 1);
  unsigned grid = 0;
  FOPS_TRY(resident_grid(kernel, kThreads, shared, s.n, &grid));
  kernel<<<grid, kThreads, shared, stream>>>(s, static_cast<const X*>(x.data), k, weights.device,
                                             static_cast<Y*>(y.data), y.lo);
  return launched("convolution of one channel, pool and activation");
}

template <int kSteps>
fops_status launch(const Sizes& s, const ConvPoolWeights& weights, const float* k, const Tensor& x, const Tensor& y,
                   cudaStream_t stream) {
  const bool halves = y.form == Tensor::Form::halves, bytes = x.form == Tensor::Form::uint8;
  if (halves && bytes) return launch<kSteps, uint8_t, __half>(s, weights, k, x, y, stream);
  if (halves) return launch<kSteps, float, __half>(s, weights, k, x, y, stream);
  if (bytes) return launch<kSteps, uint8_t, float>(s, weights, k, x, y, stream);
  return launch<kSteps, float, float>(s, weights, k, x, y, stream);
}

}  // namespace

// Supports only 5x5 and 7x7. For 3x3 filters the bound of docs/precision.md allows a sum of 9 products an error that
// the splits into halves can already use up.
bool takes_first_layer(const Stage& stage) {
  if (stage.kind != Stage::Kind::convolution || stage.in.C != 1 || stage.in.W % 2 != 0 ||
      stage.out.C > kFilters * kWarps || (stage.K != 5 && stage.K != 7) || !stage.pool.pairs() || stage.out.W < 2 ||
      stage.in.H > 1024 || stage.in.W > 1024)
    return false;
  const Sizes s = sizes_of(stage);
  return s.windows < 65536 && shared_bytes(s, false) <= kEveryGpuShared;
}

fops_status run_first_layer(const Stage& stage, const ConvPoolWeights& weights, const float* k, int64_t n,
                            const Tensor& x, const Tensor& y, cudaStream_t stream) {
  Sizes s = sizes_of(stage);
  s.n = n, s.activation = stage.activation, s.scale = y.scale;
  s.inverse_PW = inverse_of(s.PW), s.inverse_half_W = inverse_of(s.W / 2);
  s.item = y.form == Tensor::Form::halves ? dense_stride(stage.out.size()) : stage.out.size();
  return stage.K == 5 ? launch<3>(s, weights, k, x, y, stream) : launch<4>(s, weights, k, x, y, stream);
}

}  // namespace fops
