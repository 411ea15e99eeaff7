// Convolution of a few channels, 4x4 max pool and activation in one kernel: the course's second layer since 2020.
//
//   A: 16 filters, registers     B: 4 pixels x 4 channels of 8 outputs     D: 16 filters x 8 outputs, 4 rows of them
//   14 steps of 16 weights    x  | window 0: 4 | window 1: 4 |          =  | window 0: 4 | window 1: 4 |
//
// A consumer warp computes two windows of the pool at a time, all four rows at once: each row of pixels that it loads
// is multiplied with up to four rows of the filters, and the pool is a maximum in registers. The consumer warps take
// windows in turn, without a break between images. Producer warps store the outputs of a finished image, load the image
// that takes its place in shared memory, and split it into halves with the channels of a pixel side by side. So there
// is a pipeline of kStages images, with the mbarriers full[] and done[].
// Costs: windows that the border cuts are computed completely.
// Gains: of 16 outputs only the one that the pool keeps is written.
#include "gpu/divide.cuh"
#include "gpu/isa/bulk_copy.cuh"
#include "gpu/isa/halves.cuh"
#include "gpu/isa/mma.cuh"
#include "gpu/isa/wgmma.cuh"
#include "gpu/largest.cuh"
#include "gpu/launch.h"
#include "net/cuda/kernels/activate.cuh"
#include "net/cuda/kernels/conv_pool/conv_pool.h"
#include "net/cuda/kernels/conv_pool/layout.h"
#include "net/cuda/kernels/dense/dense.h"

namespace fops {
namespace {

constexpr int kConsumers = 8, kProducers = 4;  // numbers of warps
constexpr int kThreads = 32 * (kConsumers + kProducers), kProducerThreads = 32 * kProducers;
constexpr int kStages = 3;  // pipeline stages: images in shared memory
constexpr int kPool = 4, kFilters = conv_pool::LaterLayer::kFilters, kChannels = 4;
constexpr int kMaxFound = 31;  // length of the list in Found
constexpr size_t kMaxShared = 200 * 1024;

struct Sizes {
  long long n, item;       // number of images; values from one image's outputs to the next
  int C, H, W, M, OH, OW,  // input and filters; OH, OW: output before the pool
      PW, windows;         // windows of the pool: per row, and per filter
  int pixels;              // pixels per stage in shared memory: an image, and zeros that the cut windows read
  int values, out_bytes;   // outputs per image, and their bytes per stage; low parts fill the second half
  uint32_t inverse_PW;
  Activation activation;
  float scale;  // scale of the output halves
  bool vector;  // whether items' outputs begin on 16-byte boundaries and are a multiple of 16 bytes
};

// The pixels of an image that have, in some channel, a value that cannot be split well. In shared memory.
struct Found {
  int count;  // may exceed kMaxFound: then the list is incomplete
  int pixels[kMaxFound];
};

struct Shared {
  uint64_t full[kStages],  // mbarriers: the stage's pixels may be read
      done[kStages];       // mbarriers: the pixels were read, and the outputs are in shared memory
  float unscale[kStages];  // factor that undoes the image's scale
  Found found[kStages];
  unsigned scratch;
};

struct Producers {
  __device__ int thread() const { return threadIdx.x - 32 * kConsumers; }
  __device__ void sync() const { named_barrier(1, kProducerThreads); }
};

// Loads an image, float32 (C, H, W), into shared memory, scaled so that its largest finite value is in [2^13, 2^14). A
// pixel is the high parts of its four channels, followed by their low parts. Pixels with a value that cannot be split
// well are recorded in `found`. Pixels with a value that is not finite become zero: an infinity times a zero weight
// that pads a filter would be NaN, also in outputs that do not use the pixel.
template <int K>
__device__ void produce(const Sizes& s, const float* image, uint4* pixels, Found* found, float* unscale,
                        unsigned* scratch) {
  const Producers team;
  const int plane = s.H * s.W, thread = team.thread();
  const auto load = [&](int i, float (&v)[kChannels]) {
#pragma unroll
    for (int c = 0; c < kChannels; ++c) v[c] = c < s.C ? __ldg(image + c * plane + i) : 0.0f;
  };
  float largest = 0.0f;
#pragma unroll 4
  for (int i = thread; i < plane; i += kProducerThreads) {
    float v[kChannels];
    load(i, v);
#pragma unroll
    for (int c = 0; c < kChannels; ++c) largest = fabsf(v[c]) < INFINITY ? fmaxf(largest, fabsf(v[c])) : largest;
  }
  if (thread == 0) found->count = 0;
  const float scale = scale_for(block_max(largest, scratch, team));
  const uint32_t least = nonzero_bits(min_scaled(static_cast<float>(s.C * K * K)) / scale);
  if (thread == 0) *unscale = 1.0f / scale;
#pragma unroll 2
  for (int i = thread; i < plane; i += kProducerThreads) {
    float v[kChannels];
    load(i, v);
    uint32_t smallest = ~0u;
#pragma unroll
    for (int c = 0; c < kChannels; ++c) smallest = min(smallest, nonzero_bits(v[c]));
    SplitPair a = split_pair(v[0] * scale, v[1] * scale), b = split_pair(v[2] * scale, v[3] * scale);
    const auto infinite = [](uint32_t two) { return (two & 0x7c00) == 0x7c00 || (two & 0x7c000000) == 0x7c000000; };
    const bool beyond = infinite(a.hi) || infinite(b.hi);
    if (beyond) a = b = {0, 0};
    pixels[i] = make_uint4(a.hi, b.hi, a.lo, b.lo);
    if (beyond || smallest < least)
      if (const int n = atomicAdd(&found->count, 1); n < kMaxFound) found->pixels[n] = i;
  }
}

template <bool kHalves>
__device__ inline void put(const Sizes& s, char* out, int at, float v) {
  if constexpr (kHalves) {
    const Split parts = split(v * s.scale);
    reinterpret_cast<__half*>(out)[at] = parts.hi;
    reinterpret_cast<__half*>(out + s.out_bytes / 2)[at] = parts.lo;
  } else {
    reinterpret_cast<float*>(out)[at] = v;
  }
}

// Recomputes the windows that use a pixel in `found` from the original float32 values. The products of a row of taps
// are added in float32, the rows in double.
template <int K, bool kHalves>
__device__ __noinline__ void repair(const Sizes& s, const float* image, const float* k, const Found& found, char* out) {
  for (int i = Producers().thread(); i < s.values; i += kProducerThreads) {
    const int m = i / s.windows, window = i - m * s.windows;
    const int top = window / s.PW * kPool, left = window % s.PW * kPool;
    bool enters = found.count > kMaxFound;
    for (int n = 0; n < min(found.count, kMaxFound); ++n) {
      const int row = found.pixels[n] / s.W - top, column = found.pixels[n] % s.W - left;
      enters |= row >= 0 && row < K + kPool - 1 && column >= 0 && column < K + kPool - 1;
    }
    if (!enters) continue;
    float largest = 0.0f;
    for (int place = 0; place < kPool * kPool; ++place) {
      const int h = top + place / kPool, w = left + place % kPool;
      if (h >= s.OH || w >= s.OW) continue;  // the border cuts the window
      double sum = 0.0;
      for (int c = 0; c < s.C; ++c)
        for (int p = 0; p < K; ++p) {
          const float *from = image + (c * s.H + h + p) * s.W + w, *weight = k + ((m * s.C + c) * K + p) * K;
          float row = 0.0f;
          for (int q = 0; q < K; ++q) row = fmaf(from[q], weight[q], row);
          sum += row;
        }
      const float v = static_cast<float>(sum);
      largest = place == 0 ? v : max_or_nan(largest, v);
    }
    put<kHalves>(s, out, i, activate(s.activation, largest));
  }
}

template <bool kHalves>
__device__ void store(const Sizes& s, long long image, const char* out, void* y, __half* y_lo) {
  const int thread = Producers().thread();
  if constexpr (kHalves) {
    __half *hi = static_cast<__half*>(y) + image * s.item, *lo = y_lo + image * s.item;
    const char* low = out + s.out_bytes / 2;
    if (s.vector) {
      if (thread == 0) bulk_store_kept(hi, out, 2 * s.values), bulk_store_kept(lo, low, 2 * s.values), bulk_commit();
      return;
    }
    for (int i = thread; i < s.values; i += kProducerThreads)
      hi[i] = reinterpret_cast<const __half*>(out)[i], lo[i] = reinterpret_cast<const __half*>(low)[i];
  } else {
    float* to = static_cast<float*>(y) + image * s.item;
    if (s.vector) {
      if (thread == 0) bulk_store_kept(to, out, 4 * s.values), bulk_commit();
      return;
    }
    for (int i = thread; i < s.values; i += kProducerThreads) to[i] = reinterpret_cast<const float*>(out)[i];
  }
}

// The work of a consumer warp. With g = lane / 4 and t = lane % 4, a lane loads pixel t of output g for operand B, and
// its accumulators are outputs 2t and 2t + 1 of filters g and g + 8.
template <int K, bool kHalves>
__device__ __forceinline__ void consume(const Sizes& s, Shared& shared, const uint4* pixels, char* out,
                                        const uint32_t* __restrict__ packed) {
  constexpr int kSteps = conv_pool::LaterLayer::steps(K);
  constexpr int kWindows = 8 / kPool;  // windows that a warp computes at a time
  const int lane = threadIdx.x % 32, warp = __shfl_sync(0xffffffffu, threadIdx.x / 32, 0), g = lane / 4, t = lane % 4;
  uint32_t high[kSteps][4], low[kSteps][4];
#pragma unroll
  for (int i = 0; i < kSteps; ++i) {
    const uint4 h = __ldg(reinterpret_cast<const uint4*>(packed) + i * 32 + lane);
    const uint4 l = __ldg(reinterpret_cast<const uint4*>(packed) + (kSteps + i) * 32 + lane);
    high[i][0] = h.x, high[i][1] = h.y, high[i][2] = h.z, high[i][3] = h.w;
    low[i][0] = l.x, low[i][1] = l.y, low[i][2] = l.z, low[i][3] = l.w;
  }
  const bool odd = t % 2;  // lanes t and t ^ 1 share a window: the even lane keeps filter g, the odd one filter g + 8
  const int m = g + 8 * odd;
  const float filter_unscale = __uint_as_float(__ldg(packed + 2 * kSteps * 32 * 4 + m));
  const int tiles = (s.windows + kWindows - 1) / kWindows;
  PipelineState state;
  int tile = warp;
  for (long long image = blockIdx.x; image < s.n; image += gridDim.x, state.next(kStages), tile -= tiles) {
    barrier_wait(&shared.full[state.stage], state.phase);
    const float unscale = shared.unscale[state.stage];
    const uint4* from = pixels + state.stage * s.pixels;
    char* to = out + state.stage * s.out_bytes;
    for (; tile < tiles; tile += kConsumers) {
      const int in = min(tile * kWindows + g / kPool, s.windows - 1), in_row = divide(in, s.inverse_PW);
      const uint4* row = from + kPool * (in_row * s.W + in - in_row * s.PW) + g % kPool + t;
      // For each of the window's rows o: `big` is the sum of products of high parts over two rows of the filter, which
      // are added to `sum` then, because tensor core sums must be short (docs/precision.md); `small` is the sum of
      // products of a high and a low part.
      float big[kPool][4], sum[kPool][4], small[kPool][4];
#pragma unroll
      for (int r = 0; r < K + kPool - 1; ++r, row += s.W)
#pragma unroll
        for (int half = 0; half < 2; ++half) {
          const uint4 v = row[4 * half];
#pragma unroll
          for (int o = 0; o < kPool; ++o) {
            const int p = r - o;
            if (p < 0 || p >= K) continue;
            const uint32_t (&h)[4] = high[2 * p + half], (&l)[4] = low[2 * p + half];
            mma_chain(p % 2 == 0 && half == 0, big[o], h, v.x, v.y);
            mma_chain(p == 0 && half == 0, small[o], h, v.z, v.w);
            mma(small[o], l, v.x, v.y);
            if (half == 1 && (p % 2 == 1 || p == K - 1))
#pragma unroll
              for (int e = 0; e < 4; ++e) sum[o][e] = p < 2 ? big[o][e] : sum[o][e] + big[o][e];
          }
        }
      const int window = tile * kWindows + t / 2, window_row = divide(window, s.inverse_PW);
      // Numbers of rows and columns of convolution outputs from the window's first on; fewer than kPool in cut windows.
      const int rows = s.OH - kPool * window_row;
      const int columns = s.OW - kPool * (window - window_row * s.PW);
      float largest[2] = {-INFINITY, -INFINITY};  // for filters g and g + 8
#pragma unroll
      for (int o = 0; o < kPool; ++o)
#pragma unroll
        for (int e = 0; e < 4; ++e) {
          const float v = fmaf(small[o][e], 1.0f / kLowScale, sum[o][e]);
          if (o < rows && 2 * odd + e % 2 < columns) largest[e / 2] = fmaxf(largest[e / 2], v);
        }
      const float other = __shfl_xor_sync(0xffffffffu, odd ? largest[0] : largest[1], 1);
      const float v = fmaxf(odd ? largest[1] : largest[0], other) * filter_unscale * unscale;
      if (window < s.windows && m < s.M) put<kHalves>(s, to, m * s.windows + window, activate(s.activation, v));
    }
    bulk_fence();
    barrier_arrive(&shared.done[state.stage]);
  }
}

template <int K, bool kHalves>
__global__ void __launch_bounds__(bound_with_wgmma(kThreads), 1)
    later_layer(const __grid_constant__ Sizes s, const float* __restrict__ x, const float* __restrict__ k,
                const uint32_t* __restrict__ packed, void* __restrict__ y, __half* __restrict__ y_lo) {
#if FOPS_SM_90A
  constexpr int kConsumerRegisters = 216, kProducerRegisters = 72;  // per thread; together they fill an SM's registers
  extern __shared__ __align__(128) uint4 pixels[];                  // [stage][row][column]
  __shared__ Shared shared;
  char* out = reinterpret_cast<char*>(pixels + kStages * s.pixels);  // [stage]
  for (int i = threadIdx.x; i < kStages * s.pixels; i += kThreads) pixels[i] = make_uint4(0, 0, 0, 0);
  if (threadIdx.x == 0) {
    for (int i = 0; i < kStages; ++i) {
      barrier_init(&shared.full[i], kProducerThreads);
      barrier_init(&shared.done[i], 32 * kConsumers);
    }
    barrier_init_end();
  }
  __syncthreads();
  if (__shfl_sync(0xffffffffu, threadIdx.x / 32, 0) < kConsumers) {
    setmaxnreg_inc<kConsumerRegisters>();
    consume<K, kHalves>(s, shared, pixels, out, packed);
    return;
  }
  setmaxnreg_dec<kProducerRegisters>();
  const long long step = gridDim.x;
  PipelineState state;
  for (long long image = blockIdx.x; image - kStages * step < s.n; image += step, state.next(kStages)) {
    char* const outputs = out + state.stage * s.out_bytes;
    if (const long long before = image - kStages * step; before >= 0) {
      barrier_wait(&shared.done[state.stage], state.phase ^ 1);
      if (shared.found[state.stage].count > 0) {
        repair<K, kHalves>(s, x + before * s.C * s.H * s.W, k, shared.found[state.stage], outputs);
        bulk_fence();
        Producers().sync();
      }
      store<kHalves>(s, before, outputs, y, y_lo);
    }
    if (image >= s.n) continue;
    Producers().sync();  // waits until all threads have read `found`
    produce<K>(s, x + image * s.C * s.H * s.W, pixels + state.stage * s.pixels, &shared.found[state.stage],
               &shared.unscale[state.stage], &shared.scratch);
    bulk_wait_read();  // the copies have read the outputs, so the consumers may overwrite them
    barrier_arrive(&shared.full[state.stage]);
  }
  bulk_wait_read();  // the block must not end before the copies have read its shared memory
#endif
}

Sizes sizes_of(const Stage& stage, bool halves) {
  Sizes s = {};
  s.C = static_cast<int>(stage.in.C), s.H = static_cast<int>(stage.in.H), s.W = static_cast<int>(stage.in.W);
  s.M = static_cast<int>(stage.out.C), s.PW = static_cast<int>(stage.out.W);
  s.OH = s.H - static_cast<int>(stage.K) + 1, s.OW = s.W - static_cast<int>(stage.K) + 1;
  s.windows = static_cast<int>(stage.out.H * stage.out.W), s.values = s.M * s.windows;
  // The last pixel that a lane reads is in the last window's last row.
  const int last_row = static_cast<int>(kPool * stage.out.H + stage.K - 2);
  s.pixels = std::max(s.H * s.W, last_row * s.W + kPool * s.PW + 8);
  s.out_bytes = halves ? 2 * ((2 * s.values + 15) / 16 * 16) : (4 * s.values + 15) / 16 * 16;
  return s;
}

size_t shared_bytes(const Sizes& s) { return kStages * (s.pixels * sizeof(uint4) + s.out_bytes); }

template <bool kHalves>
fops_status launch(const Stage& stage, const ConvPoolWeights& weights, const float* k, int64_t n, const Tensor& x,
                   const Tensor& y, cudaStream_t stream) {
  auto* kernel = later_layer<7, kHalves>;
  Sizes s = sizes_of(stage, kHalves);
  s.n = n, s.activation = stage.activation, s.scale = y.scale;
  s.inverse_PW = inverse_of(s.PW);
  s.item = kHalves ? dense_stride(s.values) : s.values;
  s.vector = s.values * (kHalves ? 2 : 4) % 16 == 0 && reinterpret_cast<uintptr_t>(y.data) % 16 == 0;
  const size_t shared = shared_bytes(s);
  unsigned grid = 0;
  FOPS_TRY(resident_grid(kernel, kThreads, shared, n, &grid));
  kernel<<<grid, kThreads, shared, stream>>>(s, static_cast<const float*>(x.data), k, weights.device, y.data, y.lo);
  return launched("convolution of a few channels, pool and activation");
}

}  // namespace

bool takes_later_layer(const Stage& stage) {
  if (stage.kind != Stage::Kind::convolution || stage.in.C < 2 || stage.in.C > kChannels || stage.K != 7 ||
      stage.out.C > kFilters || stage.pool.size != kPool || stage.pool.stride != kPool || stage.out.W < 2 ||
      stage.in.H > 1024 || stage.in.W > 1024)
    return false;
  return std::max(shared_bytes(sizes_of(stage, true)), shared_bytes(sizes_of(stage, false))) <= kMaxShared &&
         has_code_here(later_layer<7, true>, kThreads);
}

fops_status run_later_layer(const Stage& stage, const ConvPoolWeights& weights, const float* k, int64_t n,
                            const Tensor& x, const Tensor& y, cudaStream_t stream) {
  return y.form == Tensor::Form::halves ? launch<true>(stage, weights, k, n, x, y, stream)
                                        : launch<false>(stage, weights, k, n, x, y, stream);
}

}  // namespace fops
