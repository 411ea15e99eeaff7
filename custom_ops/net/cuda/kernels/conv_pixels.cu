// Convolution + tanh + 2x2 max pool in one kernel: one input channel, 5x5, up to 64 filters, on the tensor cores.
//
//   upper row of windows   L R | L R | L R | L R   columns of an mma tile: n / 2 is the window, n % 2 left or right;
//   lower row of windows   L R | L R | L R | L R   four tiles: upper and lower row, even and odd outputs of eight.
//   lane t                 t=0   t=1   t=2   t=3   a window's four sums, and two outputs, end in one lane
//
// The plain layer is bound by its stores (fa2017: 1,152 MB). Here a quarter of that leaves, as halves for the next
// layer, and tanh, which rises, comes after the pool: a quarter of the tanh too.
// Costs: only this shape. Gains: fa2017, 10,000 uint8 images on an H200: 0.172 ms to halves, 0.157 ms to floats
// (PyTorch's three kernels 2.52); sp2018's first layer 0.237, fa2019's 0.516. docs/notebook.md: limits, and what was
// tried.
#include <cmath>
#include <cstring>

#include "gpu/divide.cuh"
#include "gpu/isa/bulk_copy.cuh"
#include "gpu/isa/halves.cuh"
#include "gpu/isa/mma.cuh"
#include "gpu/isa/tanh.cuh"
#include "gpu/largest.cuh"
#include "gpu/launch.h"
#include "net/cuda/dense.h"
#include "net/cuda/kernels/stages.h"

namespace fops {
namespace {

// Filters are the rows of an mma tile, 16 a tile: first the low halves of the weights, then the high ones, into the
// same sums. Up to eight filters left over share a tile, high halves in rows 0 to 7 and low ones below.
constexpr int K = 5, kTaps = K * K;
constexpr int kSteps = 2;  // of mma: 16 pairs of taps
constexpr int kWarps = 4, kThreads = 32 * kWarps;
constexpr int kChunk = 8;  // outputs a warp computes at a time
constexpr size_t kMostShared = 98 * 1024;  // what every GPU from sm_80 on gives a block

// Pairs of taps (p, q) and (p, q + 1), p and q a nibble each, in the order in which lanes 0 to 3 read them for the four
// registers of two mma steps; pair 11 is padding. Staged rows are an odd multiple of 16 words apart, so that the pairs
// of three of the four registers, {0, 2, 16, 18} or {2, 4, 18, 20} modulo 32, together with the windows' {0, 1, 4, 5,
// 8, 9, 12, 13} fall into 32 different banks; the last one's take two turns.
constexpr uint64_t kPairP = 0x4410134233221100, kPairQ = 0x4044202042422020;
constexpr int kPadding = 11;
__host__ __device__ constexpr int pair_p(int i) { return static_cast<int>(kPairP >> 4 * i & 15); }
__host__ __device__ constexpr int pair_q(int i) { return static_cast<int>(kPairQ >> 4 * i & 15); }

struct Sizes {
  long long n;
  int H, W, M;
  int rows;           // of the image that the windows reach
  int stride;         // words between two staged rows
  int PW, outputs;    // of one filter
  int values;         // of an item: M * outputs
  int out_stride;     // of an item in memory, in values
  uint32_t inverse_PW, inverse_groups;
  int groups;         // of four pixels, in a row
  bool vector_in;     // images begin on 4-byte (uint8) or 16-byte boundaries, and so do rows of floats
  bool vector_out;    // items begin on 16-byte boundaries
};

__host__ __device__ constexpr int tiles_of(int M) { return M / 16 + (M % 16 > 8); }
__host__ __device__ constexpr bool has_rest(int M) { return M % 16 >= 1 && M % 16 <= 8; }
__host__ __device__ constexpr int fragments(int full, bool rest) { return (2 * full + rest) * kSteps; }

// Two uint8 with a gap, scaled and as halves, without a conversion: 0x6400 | b is 1024 + b, and the rest is exact.
__device__ inline uint32_t pixels_to_halves(uint32_t two, __half2 scale, __half2 offset) {
  const uint32_t biased = two | 0x64006400u;
  const __half2 exact = __hfma2(reinterpret_cast<const __half2&>(biased), scale, offset);
  return bits(exact);
}

// Starts the copy of an image's bytes into shared memory.
// (A GPU without asynchronous copies has no mma of this shape either, and never runs this.)
__device__ void fetch(const Sizes& s, const uint8_t* source, uint32_t* raw) {
  const int bytes = s.rows * s.W;  // rounded up to words it still lies within the image, whose size is a multiple of 4
  if (s.vector_in) {
    const uint32_t to = static_cast<uint32_t>(__cvta_generic_to_shared(raw));
    for (int i = 4 * threadIdx.x; i < bytes; i += 4 * kThreads)
      copy_async_4(to + i, source + i);
  } else {
    for (int i = threadIdx.x; i < bytes; i += kThreads) reinterpret_cast<uint8_t*>(raw)[i] = source[i];
  }
}

// Fetched bytes as words (x[w], x[w + 1]) of halves. A row need not begin on a word of `raw`, so two words are read for
// four pixels. What lies past a row's or the image's end are bytes too, and meet zero weights.
__device__ void expand(const Sizes& s, const uint32_t* raw, float scale, uint32_t* hi) {
  const __half2 by = __float2half2_rn(scale), offset = __float2half2_rn(-1024.0f * scale);
  const int groups = s.groups;
  for (int i = threadIdx.x; i < s.rows * groups; i += kThreads) {
    const int row = divide(i, s.inverse_groups), column = 4 * (i - row * groups), at = row * s.W + column;
    const uint32_t first = raw[at / 4], second = raw[at / 4 + 1];
    const uint32_t four = __funnelshift_r(first, second, at % 4 * 8), fifth = second >> at % 4 * 8;
    *reinterpret_cast<uint4*>(hi + row * s.stride + column) =
        make_uint4(pixels_to_halves(__byte_perm(four, 0, 0x4140), by, offset),
                   pixels_to_halves(__byte_perm(four, 0, 0x4241), by, offset),
                   pixels_to_halves(__byte_perm(four, 0, 0x4342), by, offset),
                   pixels_to_halves(__byte_perm(four, fifth & 255, 0x7473), by, offset));
  }
}

// Stages an image as words (x[w], x[w + 1]) of halves, and with kResidue what their rounding left. Returns whether this
// thread's pixels were all exact.
template <bool kResidue>
__device__ bool stage(const Sizes& s, const float* source, float scale, uint32_t* hi, uint32_t* lo) {
  bool exact = true;
  if (s.vector_in) {
    const int groups = s.groups;
    for (int i = threadIdx.x; i < s.rows * groups; i += kThreads) {
      const int row = divide(i, s.inverse_groups), column = 4 * (i - row * groups);
      const float4 four = __ldg(reinterpret_cast<const float4*>(source) + i);
      const float fifth = column + 4 < s.W ? source[4 * i + 4] : 0.0f;
      const float v[5] = {four.x * scale, four.y * scale, four.z * scale, four.w * scale, fifth * scale};
      uint32_t high[4], low[4];
#pragma unroll
      for (int e = 0; e < 4; ++e) exact = round_pair<kResidue>(v[e], v[e + 1], high + e, low + e) && exact;
      const int at = row * s.stride + column;
      *reinterpret_cast<uint4*>(hi + at) = make_uint4(high[0], high[1], high[2], high[3]);
      if (kResidue) *reinterpret_cast<uint4*>(lo + at) = make_uint4(low[0], low[1], low[2], low[3]);
    }
  } else {
    for (int row = threadIdx.x / 32; row < s.rows; row += kWarps)
      for (int w = threadIdx.x % 32; w < s.W; w += 32) {
        const float* from = source + row * s.W + w;
        exact = round_pair<kResidue>(from[0] * scale, w + 1 < s.W ? from[1] * scale : 0.0f, hi + row * s.stride + w,
                                     lo + row * s.stride + w) && exact;
      }
  }
  return exact;
}

// Where a block gathers an image's outputs: floats, or all high halves and then all low ones.
struct Outgoing {
  float* floats;
  __half *hi, *lo;
};

// Two neighbouring outputs of a filter, from the largest sums of their windows; `i` is the place of the first. The work
// is done whether or not it counts: a branch here keeps the next tile's products from overlapping it.
template <bool kHalves>
__device__ inline void emit(const Outgoing& to, int i, bool first, bool second, float a, float b) {
  if constexpr (kHalves) {  // their number is even: both or none
    const float y0 = tanh_of_argument<kTanhScale>(a), y1 = tanh_of_argument<kTanhScale>(b);
    const __half2 high = __floats2half2_rn(y0, y1);
    const __half2 low = __floats2half2_rn(y0 - __low2float(high), y1 - __high2float(high));
    if (first) *reinterpret_cast<__half2*>(to.hi + i) = high;
    if (first) *reinterpret_cast<__half2*>(to.lo + i) = low;
  } else {
    const float y0 = tanh_of_argument(a), y1 = tanh_of_argument(b);
    if (first) to.floats[i] = y0;
    if (second) to.floats[i + 1] = y1;
  }
}

// Eight outputs of the filters of tiles kFrom to kTo - 1, and with kRest of those left over, from staged pixels.
// kUnit: the sums need no scaling.
template <bool kExact, bool kUnit, bool kHalves, int kFrom, int kTo, bool kRest, bool kLast, int kFragments>
__device__ __forceinline__ void products(const Sizes& s, const uint32_t (&weights)[kFragments][4],
                                         const int (&offset)[4], float unscale, float rescale, const uint32_t* hi,
                                         const uint32_t* lo, const Outgoing& to, int chunk) {
  const int lane = threadIdx.x % 32, g = lane / 4, t = lane % 4;
  uint32_t in[2][2][4], rest[2][2][4];  // [even or odd output][row of the window][register]
#pragma unroll
  for (int j = 0; j < 2; ++j) {
    const int at = min(chunk + g / 2 * 2 + j, s.outputs - 1), row = divide(at, s.inverse_PW);
    const int corner = 4 * (2 * row * s.stride + 2 * (at - row * s.PW) + g % 2);
#pragma unroll
    for (int r = 0; r < 2; ++r)
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        const int from = corner + r * 4 * s.stride + offset[i];
        in[j][r][i] = *reinterpret_cast<const uint32_t*>(reinterpret_cast<const char*>(hi) + from);
        if (!kExact) rest[j][r][i] = *reinterpret_cast<const uint32_t*>(reinterpret_cast<const char*>(lo) + from);
      }
  }
  const auto scaled = [&](float v) { return kUnit ? v : kExact ? v * unscale : v * unscale * rescale; };
  const int first = chunk + 2 * t;
  const bool one = first < s.outputs, two = first + 1 < s.outputs;
  int place = (16 * kFrom + g) * s.outputs + first;

#pragma unroll
  for (int tile = kFrom; tile < kTo; ++tile) {
    float sum[2][2][4] = {};
#pragma unroll
    for (int step = 0; step < kSteps; ++step)
#pragma unroll
      for (int e = 0; e < 4; ++e)
        mma(sum[e / 2][e % 2], weights[tile * 4 + step], in[e / 2][e % 2][2 * step], in[e / 2][e % 2][2 * step + 1]);
    if (!kExact) {
#pragma unroll
      for (int step = 0; step < kSteps; ++step)
#pragma unroll
        for (int e = 0; e < 4; ++e)
          mma(sum[e / 2][e % 2], weights[tile * 4 + 2 + step], rest[e / 2][e % 2][2 * step],
              rest[e / 2][e % 2][2 * step + 1]);
    }
#pragma unroll
    for (int step = 0; step < kSteps; ++step)
#pragma unroll
      for (int e = 0; e < 4; ++e)
        mma(sum[e / 2][e % 2], weights[tile * 4 + 2 + step], in[e / 2][e % 2][2 * step],
            in[e / 2][e % 2][2 * step + 1]);
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      float v[2];
#pragma unroll
      for (int j = 0; j < 2; ++j)
        v[j] = scaled(fmaxf(fmaxf(sum[j][0][2 * half], sum[j][0][2 * half + 1]),
                            fmaxf(sum[j][1][2 * half], sum[j][1][2 * half + 1])));
      const bool real = !kLast || tile < kTo - 1 || 16 * tile + 8 * half + g < s.M;
      emit<kHalves>(to, place, one && real, two && real, v[0], v[1]);
      place += 8 * s.outputs;
    }
  }
  if (kRest) {
    float sum[2][2][4] = {};
#pragma unroll
    for (int step = 0; step < kSteps; ++step)
#pragma unroll
      for (int e = 0; e < 4; ++e) {
        const uint32_t(&w)[4] = weights[kTo * 4 + step];
        if (!kExact) mma(sum[e / 2][e % 2], w, rest[e / 2][e % 2][2 * step], rest[e / 2][e % 2][2 * step + 1]);
        mma(sum[e / 2][e % 2], w, in[e / 2][e % 2][2 * step], in[e / 2][e % 2][2 * step + 1]);
      }
    float v[2];
#pragma unroll
    for (int j = 0; j < 2; ++j)
      v[j] = scaled(fmaxf(fmaxf(sum[j][0][0] + sum[j][0][2], sum[j][0][1] + sum[j][0][3]),
                          fmaxf(sum[j][1][0] + sum[j][1][2], sum[j][1][1] + sum[j][1][3])));
    const bool real = 16 * kTo + g < s.M;
    emit<kHalves>(to, place, one && real, two && real, v[0], v[1]);
  }
}

// One image's outputs. Where the last round has chunks for half the warps, or fewer, two warps share one: fa2017's 18
// chunks take four warps 4.5 rounds, not 5.
template <bool kExact, bool kUnit, bool kHalves, int kFull, bool kRest>
__device__ void multiply(const Sizes& s, const uint32_t (&weights)[fragments(kFull, kRest)][4], const int (&offset)[4],
                         float unscale, float rescale, const uint32_t* hi, const uint32_t* lo, const Outgoing& to) {
  constexpr int kHalf = (kFull + 1) / 2;
  constexpr bool kShare = kHalf < kFull || kRest;
  const int warp = threadIdx.x / 32, chunks = (s.outputs + kChunk - 1) / kChunk;
  const int shared = kShare && chunks % kWarps <= kWarps / 2 ? chunks % kWarps : 0;
  for (int chunk = warp; chunk < chunks - shared; chunk += kWarps)
    products<kExact, kUnit, kHalves, 0, kFull, kRest, !kRest>(s, weights, offset, unscale, rescale, hi, lo, to,
                                                              chunk * kChunk);
  if constexpr (kShare) {
    if (warp >= 2 * shared) return;
    const int chunk = (chunks - shared + warp / 2) * kChunk;
    if (warp % 2 == 0)
      products<kExact, kUnit, kHalves, 0, kHalf, false, false>(s, weights, offset, unscale, rescale, hi, lo, to, chunk);
    else
      products<kExact, kUnit, kHalves, kHalf, kFull, kRest, !kRest>(s, weights, offset, unscale, rescale, hi, lo, to,
                                                                    chunk);
  }
}

// The way out for images with an infinity or a NaN, which have no split. Rare, so only right.
template <bool kHalves>
__device__ void direct(const Sizes& s, const float* image, const float* k, const Outgoing& to) {
  for (int i = threadIdx.x; i < s.values; i += kThreads) {
    const int m = i / s.outputs, at = i % s.outputs;
    float largest = -INFINITY;
    for (int window = 0; window < 4; ++window) {
      const float* corner = image + (at / s.PW * 2 + window / 2) * s.W + at % s.PW * 2 + window % 2;
      float sum = 0.0f;
      for (int tap = 0; tap < kTaps; ++tap) sum += corner[tap / K * s.W + tap % K] * k[m * kTaps + tap];
      largest = sum > largest || sum != sum ? sum : largest;
      if (sum != sum) break;
    }
    const float y = tanh_scaled(largest) * (kHalves ? kTanhScale : 1);
    if constexpr (kHalves) {
      const Split parts = split(y);
      to.hi[i] = parts.hi, to.lo[i] = parts.lo;
    } else {
      to.floats[i] = y;
    }
  }
}

// `bytes` from shared memory to global memory; the whole block calls it.
__device__ inline void copy_out(const Sizes& s, void* to, const void* from, int bytes) {
  if (s.vector_out && kCopyEngine) {
    if (threadIdx.x == 0) bulk_store_kept(to, from, bytes);
  } else if (s.vector_out) {
    for (int i = threadIdx.x; i < bytes / 16; i += kThreads)
      static_cast<uint4*>(to)[i] = static_cast<const uint4*>(from)[i];
  } else {
    for (int i = threadIdx.x; i < bytes / 2; i += kThreads)
      static_cast<uint16_t*>(to)[i] = static_cast<const uint16_t*>(from)[i];
  }
}

__host__ __device__ inline int staged_words(const Sizes& s) { return s.rows * s.stride; }
__host__ __device__ inline int raw_words(const Sizes& s) { return (s.rows * s.W + 8 + 15) / 16 * 4; }
__host__ __device__ inline int half_bytes(const Sizes& s) { return (s.values * 2 + 15) / 16 * 16; }

// A block stays on its multiprocessor, the weights in its registers, and walks over the images.
template <int kFull, bool kRest, bool kHalves, typename X>
__global__ void __launch_bounds__(kThreads, 4)
    conv_pixels(Sizes s, const X* __restrict__ x, const float* __restrict__ k, const uint4* __restrict__ packed,
                float unscale, void* __restrict__ y, __half* __restrict__ y_lo) {
  // uint8 pixels are staged as multiples of `unscale`, so that their sums need no scaling any more.
  const float pixel_scale = unscale;
  constexpr bool kPixels = sizeof(X) == 1;  // exact in half, whatever they are
  extern __shared__ __align__(16) uint32_t shared[];
  __shared__ unsigned scratch;
  const int lane = threadIdx.x % 32, t = lane % 4;
  uint32_t *hi = shared, *lo = shared + staged_words(s), *raw = lo;  // uint8 has no low halves
  char* gathered = reinterpret_cast<char*>(lo + (kPixels ? raw_words(s) : staged_words(s)));
  const Outgoing to{reinterpret_cast<float*>(gathered), reinterpret_cast<__half*>(gathered),
                    reinterpret_cast<__half*>(gathered + half_bytes(s))};

  uint32_t weights[fragments(kFull, kRest)][4];
#pragma unroll
  for (int i = 0; i < fragments(kFull, kRest); ++i) {
    const uint4 four = __ldg(packed + i * 32 + lane);
    weights[i][0] = four.x, weights[i][1] = four.y, weights[i][2] = four.z, weights[i][3] = four.w;
  }
  int offset[4];  // of this lane's pairs, from the corner of its window, in bytes
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    const int pair = 4 * i + t;
    offset[i] = 4 * (pair == kPadding ? s.stride + 2 : pair_p(pair) * s.stride + pair_q(pair));
  }

  if constexpr (kPixels) {
    if (blockIdx.x < s.n) fetch(s, x + 1LL * blockIdx.x * s.H * s.W, raw);
  }
  for (long long image = blockIdx.x; image < s.n; image += gridDim.x) {
    const X* source = x + image * s.H * s.W;
    const long long next = image + gridDim.x;
    if constexpr (kPixels) {
      copy_async_wait_all();
      __syncthreads();
      expand(s, raw, pixel_scale, hi);
      bulk_wait_read();  // the image before this one has left `gathered`
      __syncthreads();
      if (next < s.n) fetch(s, x + next * s.H * s.W, raw);  // while this one is multiplied
      multiply<true, true, kHalves, kFull, kRest>(s, weights, offset, 1.0f, 1.0f, hi, hi, to);
    } else {
      bool finite = true, exact = stage<false>(s, source, kImageScale, hi, lo);
      bulk_wait_read();
      exact = !__syncthreads_or(!exact);
      float rescale = 1.0f / kImageScale;
      if (!exact) {
        float largest = 0.0f;
        for (int i = threadIdx.x; i < s.rows * s.W; i += kThreads) largest = larger(largest, source[i]);
        largest = block_max(largest, &scratch);
        finite = largest < INFINITY;
        float scale = kImageScale;
        if (largest * scale < kWindowLow || largest * scale > kWindowHigh) scale = scale_for(largest);
        if (finite) stage<true>(s, source, scale, hi, lo);
        rescale = 1.0f / scale;
        __syncthreads();
      }
      if (next < s.n) {  // on its way into L2 while this one is multiplied
        prefetch_l2(x + next * s.H * s.W, s.rows * s.W * 4, kThreads);
      }
      if (!finite)
        direct<kHalves>(s, source, k, to);
      else if (exact)
        multiply<true, false, kHalves, kFull, kRest>(s, weights, offset, unscale * rescale, 1.0f, hi, lo, to);
      else
        multiply<false, false, kHalves, kFull, kRest>(s, weights, offset, unscale, rescale, hi, lo, to);
    }

    bulk_fence();
    __syncthreads();
    if constexpr (kHalves) {
      copy_out(s, static_cast<__half*>(y) + image * s.out_stride, to.hi, s.values * 2);
      copy_out(s, y_lo + image * s.out_stride, to.lo, s.values * 2);
    } else {
      copy_out(s, static_cast<float*>(y) + image * s.out_stride, to.floats, s.values * 4);
    }
    if (s.vector_out && kCopyEngine)
      bulk_commit();
    else
      __syncthreads();
  }
  bulk_wait_read();  // shared memory outlives the copies that read it
}

Sizes sizes_for(const Stage& stage, bool halves) {
  Sizes s = {};
  s.H = static_cast<int>(stage.in.H), s.W = static_cast<int>(stage.in.W), s.M = static_cast<int>(stage.out.C);
  s.rows = static_cast<int>(2 * stage.out.H) + K - 1;
  s.stride = (s.W + 15) / 32 * 32 + 16;  // the least odd multiple of 16 that holds a row
  s.PW = static_cast<int>(stage.out.W), s.outputs = static_cast<int>(stage.out.H * stage.out.W);
  s.values = s.M * s.outputs;
  s.out_stride = halves ? static_cast<int>(dense_stride(s.values)) : s.values;
  s.inverse_PW = inverse_of(static_cast<uint32_t>(s.PW));
  s.groups = (s.W + 3) / 4;  // 2 at least
  s.inverse_groups = inverse_of(static_cast<uint32_t>(s.groups));
  return s;
}

size_t shared_bytes(const Sizes& s, bool halves, bool pixels) {
  return sizeof(uint32_t) * (staged_words(s) + (pixels ? raw_words(s) : staged_words(s))) +
         (halves ? 2 * half_bytes(s) : 4 * s.values);
}

template <int kFull, bool kRest, bool kHalves, typename X>
fops_status launch(Sizes s, const PixelWeights& weights, const float* k, const Tensor& x, const Tensor& y,
                   cudaStream_t stream) {
  auto* kernel = conv_pixels<kFull, kRest, kHalves, X>;
  s.vector_in = (sizeof(X) == 1 ? s.H * s.W : s.W) % 4 == 0 &&
                reinterpret_cast<uintptr_t>(x.data) % (4 * sizeof(X)) == 0;
  s.vector_out = s.values * (kHalves ? 2 : 4) % 16 == 0 && reinterpret_cast<uintptr_t>(y.data) % 16 == 0;
  const size_t shared = shared_bytes(s, kHalves, sizeof(X) == 1);
  FOPS_TRY(allow_shared(kernel, shared));
  unsigned grid = 0;
  FOPS_TRY(resident_grid(kernel, kThreads, shared, s.n, &grid));
  kernel<<<grid, kThreads, shared, stream>>>(s, static_cast<const X*>(x.data), k,
                                             reinterpret_cast<const uint4*>(weights.device), weights.unscale, y.data,
                                             y.lo);
  return launched("convolution, tanh and pool");
}

template <int kFull, bool kRest>
fops_status run(const Sizes& s, const PixelWeights& weights, const float* k, const Tensor& x, const Tensor& y,
                cudaStream_t stream) {
  const bool halves = y.form == Tensor::Form::halves, pixels = x.form == Tensor::Form::uint8;
  if (halves && pixels) return launch<kFull, kRest, true, uint8_t>(s, weights, k, x, y, stream);
  if (halves) return launch<kFull, kRest, true, float>(s, weights, k, x, y, stream);
  if (pixels) return launch<kFull, kRest, false, uint8_t>(s, weights, k, x, y, stream);
  return launch<kFull, kRest, false, float>(s, weights, k, x, y, stream);
}

}  // namespace

bool takes_conv_pixels(const Stage& stage) {
  if (stage.kind != Stage::Kind::convolution || stage.K != K || stage.in.C != 1 || stage.out.C > 64 || !stage.tanh ||
      !stage.pool || stage.in.H > 1024 || stage.in.W > 1024 || stage.out.W < 2 || stage.out.H < 1)
    return false;
  const Sizes s = sizes_for(stage, true);
  return s.outputs < 65536 && std::max(shared_bytes(s, true, false), shared_bytes(s, false, false)) <= kMostShared;
}

bool pack_conv_pixels(const Stage& stage, const float* k, PixelWeights* out) {
  const int M = static_cast<int>(stage.out.C), full = tiles_of(M), rest = has_rest(M);
  float largest = 0.0f;
  for (int i = 0; i < M * kTaps; ++i) {
    if (!std::isfinite(k[i])) return false;
    largest = std::max(largest, std::fabs(k[i]));
  }
  // The largest weight comes to lie in [2^13, 2^14), where its low half keeps all that counts; or as near as uint8
  // pixels allow, which are scaled by the inverse: 2^-24 is the least half, 1024 * 2^5 within its range. Weights beyond
  // that, below 2^-24 or above 2^18, are left to the general way.
  const int exponent = largest > 0 ? std::ilogb(largest) : 0;
  if (exponent < -24 || exponent > 18) return false;
  const float scale = std::ldexp(1.0f, std::max(-5, std::min(24, 13 - exponent)));
  out->unscale = 1.0f / scale;
  const auto part = [&](int m, int p, int q, bool low) {
    if (m >= M || q >= K) return 0u;
    const double v = kTanhArgument * k[m * kTaps + p * K + q] * scale;  // the sums are to be tanh's arguments
    const __half hi = __float2half_rn(static_cast<float>(v));
    const __half value = low ? __float2half_rn(static_cast<float>(v - __half2float(hi))) : hi;
    uint16_t bits;
    memcpy(&bits, &value, sizeof bits);
    return static_cast<uint32_t>(bits);
  };
  out->packed.assign(static_cast<size_t>(fragments(full, rest)) * 32 * 4, 0);
  size_t at = 0;
  for (int fragment = 0; fragment < fragments(full, rest); ++fragment)
    for (int lane = 0; lane < 32; ++lane)
      for (int e = 0; e < 4; ++e, ++at) {
        const int tile = fragment / (2 * kSteps), step = fragment % kSteps;
        const int pair = (2 * step + e / 2) * 4 + lane % 4;
        if (pair == kPadding) continue;
        const bool shared_tile = tile == full, second = e % 2 == 1;
        const bool low = shared_tile ? second : fragment % (2 * kSteps) < kSteps;
        const int m = 16 * tile + lane / 4 + (second && !shared_tile ? 8 : 0), p = pair_p(pair), q = pair_q(pair);
        out->packed[at] = part(m, p, q, low) | part(m, p, q + 1, low) << 16;
      }
  return true;
}

fops_status run_conv_pixels(const Stage& stage, const PixelWeights& weights, const float* k, int64_t n, const Tensor& x,
                            const Tensor& y, cudaStream_t stream) {
  Sizes s = sizes_for(stage, y.form == Tensor::Form::halves);
  s.n = n;
  const int M = s.M;
  switch (tiles_of(M) * 2 + has_rest(M)) {
    case 1: return run<0, true>(s, weights, k, x, y, stream);
    case 2: return run<1, false>(s, weights, k, x, y, stream);
    case 3: return run<1, true>(s, weights, k, x, y, stream);
    case 4: return run<2, false>(s, weights, k, x, y, stream);
    case 5: return run<2, true>(s, weights, k, x, y, stream);
    case 6: return run<3, false>(s, weights, k, x, y, stream);
    case 7: return run<3, true>(s, weights, k, x, y, stream);
    default: return run<4, false>(s, weights, k, x, y, stream);
  }
}

}  // namespace fops
