// Few filters over a few channels: weights stay in registers, and a pixel is read once for five rows of outputs.
//
//       columns 0 1 2 ... 7
//   row r     > # # #     #      A warp goes down eight columns of the image, a row per step. A row's words are read
//               . . .     .      once, multiplied with all five rows of the filters, and added to the five output
//               . . .     .      rows in progress: a lane reads 32 bytes for 30 mma instructions.
//
// Costs: 80 registers per lane for the weights of 16 filters, high and low parts, loaded once per launch.
// Gains: no weights are read from shared memory, which would take longer than multiplying only 16 filters.
#include "conv/cuda/kernels.h"
#include "conv/hopper/epilogue.cuh"
#include "conv/hopper/fallback.cuh"
#include "conv/hopper/variants.h"
#include "conv/hopper/variants/pixel_words.cuh"
#include "gpu/band_scale.cuh"
#include "gpu/isa/bulk_copy.cuh"
#include "gpu/isa/mma.cuh"

namespace fops {
namespace {

using namespace pixel_words;

constexpr int kWarps = 4, kThreads = 32 * kWarps;

// The lane map. One mma: D (16 x 8) += A (16 x 16) x B (16 x 8). Lane 4g + t, g = 0..7, t = 0..3, holds
//
//   A: weights, in registers      words  0 1 2 3   4 5 6 7       B: pixels               D: accumulators
//      row g      filter g               t -> a0   t -> a2       column g = walk g       columns 2t, 2t + 1 = two walks
//      row g + 8  filter g + 8           t -> a1   t -> a3       word t      -> b0       filter g      -> d0 d1
//      (a word: two channels of a tap)                           word t + 4  -> b1       filter g + 8  -> d2 d3
//
//   at input row r     sum[0]    sum[1]    sum[2]    sum[3]    sum[4]       Then all move one place to the left:
//   is output row      r - 4     r - 3     r - 2     r - 1     r            sum[0] is complete and is stored,
//   gets filters' row  4         3         2         1         0 (of K = 5) sum[4] begins at zero.
//
// The eight columns of an mma tile are eight walks down the image, one pixel per step. In a strip, walks are eight
// neighbouring columns from top to bottom. The columns left over, fewer than eight, are one more tile: each of them is cut
// into bands of rows, and each band is a walk.
struct Tiling {
  int strips;
  int tail_columns;  // number of columns left over
  int tail_rows;     // output rows of their bands, at least K - 1
  int stride;        // floats from one filter's outputs in shared memory to the next: 4 more than a multiple of 32
  int plane;         // words of a staged plane, kPad included
  bool vector_in, vector_out;
};

struct Walk {
  int column, start;  // column and row of its first output
  int skipped;        // number of first outputs that are not stored, because another walk stores them
};

// Returns walk n of a tile. In a strip, walks with even n are its first four columns, and walks with odd n its last four:
// when each lane 4g + t stores walk 2t of filter g, and then walk 2t + 1, the 32 lanes access 32 different banks. In the
// last tile, n counts the columns of the first band, then those of the next.
__device__ inline Walk walk_at(int tile, int n, const Tiling& tiling, int OH) {
  if (tile < tiling.strips) return {8 * tile + n / 2 + n % 2 * 4, 0, 0};
  int band = 0, column = n;
  while (column >= tiling.tail_columns) column -= tiling.tail_columns, ++band;
  if ((band + 1) * tiling.tail_columns > 8) return {8 * tile, 0, INT_MAX};
  const int want = band * tiling.tail_rows;
  const int start = min(want, OH - tiling.tail_rows);  // the last bands end with the image, and may overlap others
  return {8 * tile + column, start, want - start};
}

// Adds the products of one input row to sums kFirst to kLast; sum j gets the products with the filters' row K - 1 - j.
// Successive instructions add to different sums, so that none waits for the previous one.
template <bool kHalf, int kFirst, int kLast, int kSteps>
__device__ inline void multiply(float (&sum)[K][4], float (&small)[K][4], const uint32_t (&w_hi)[K][kSteps][4],
                                const uint32_t (&w_lo)[K][kSteps][4], const uint32_t* words, int plane) {
  uint32_t high[2 * kSteps], low[2 * kSteps];
#pragma unroll
  for (int i = 0; i < 2 * kSteps; ++i) high[i] = words[4 * i];
  if (!kHalf) {
#pragma unroll
    for (int i = 0; i < 2 * kSteps; ++i) low[i] = words[plane + 4 * i];
  }
#pragma unroll
  for (int s = 0; s < kSteps; ++s) {
    if (!kHalf) {
#pragma unroll
      for (int j = kFirst; j <= kLast; ++j) mma(small[j], w_lo[K - 1 - j][s], high[2 * s], high[2 * s + 1]);
    }
#pragma unroll
    for (int j = kFirst; j <= kLast; ++j) mma(sum[j], w_hi[K - 1 - j][s], high[2 * s], high[2 * s + 1]);
  }
  if (!kHalf) {
#pragma unroll
    for (int s = 0; s < kSteps; ++s)
#pragma unroll
      for (int j = kFirst; j <= kLast; ++j) mma(small[j], w_hi[K - 1 - j][s], low[2 * s], low[2 * s + 1]);
  }
}

// A persistent block: each warp has all weights in registers, and the block processes one image after another.
template <int kWords, bool kHalf>
__global__ void __launch_bounds__(kThreads, 3)
    tensor_core_column_strips(Dims d, Tiling tiling, const float* __restrict__ x, const float* __restrict__ k,
                              float* __restrict__ y) {
  constexpr int kSteps = steps(kWords);
  extern __shared__ __align__(16) uint32_t shared[];
  __shared__ unsigned scratch, tops[kWarps];
  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32, g = lane / 4, t = lane % 4;
  const Threads own = {static_cast<int>(threadIdx.x), kThreads};
  const int pixels = d.H * d.W, plane = d.OH * d.OW, taps = d.C * K * K;
  uint32_t *hi = shared, *lo = shared + tiling.plane;
  float* outgoing = reinterpret_cast<float*>(lo + tiling.plane);  // [filter][pixel]
  const long long image_floats = static_cast<long long>(d.C) * pixels;

  const float minimum = kHalf ? 0.0f : min_scaled(static_cast<float>(taps));
  const auto [filter_scale, finite] = weight_scale(k, d.M * taps, minimum, kThreads, &scratch);
  const float filter_unscale = 1.0f / filter_scale;
  uint32_t w_hi[K][kSteps][4], w_lo[K][kSteps][4];
#pragma unroll
  for (int p = 0; p < K; ++p)
#pragma unroll
    for (int e = 0; e < 4 * kSteps; ++e) {
      const SplitPair word = weight_word<kWords>(k, d, filter_scale, e % 2 * 8 + g, p, e / 2 * 4 + t);
      w_hi[p][e / 4][e % 4] = word.hi;
      w_lo[p][e / 4][e % 4] = word.lo;
    }
  if (threadIdx.x < kPad) hi[pixels * kWords + threadIdx.x] = lo[pixels * kWords + threadIdx.x] = 0;

  const int tiles = tiling.strips + (tiling.tail_columns > 0);
  int turn = blockIdx.x;
  for (long long image = blockIdx.x; image < d.B; image += gridDim.x, ++turn) {
    const float* source = x + image * image_floats;
    float* out = y + image * d.M * plane;
    float scale = kImageScale;
    const Seen seen = split_own<kWords>(own, source, d.C, pixels, tiling.vector_in, scale, hi, lo);
    unsigned top = seen.top_or_small(minimum / scale);
    for (int offset = 16; offset > 0; offset /= 2) top = max(top, __shfl_xor_sync(0xffffffffu, top, offset));
    if (lane == 0) tops[warp] = top;
    bulk_wait_read();  // the copies of the previous image's outputs have read `outgoing`
    __syncthreads();
#pragma unroll
    for (int i = 0; i < kWarps; ++i) top = max(top, tops[i]);
    const bool inside = top >= __half_as_ushort(__float2half_rn(kWindowLow)) &&
                        top <= __half_as_ushort(__float2half_rn(kWindowHigh));
    bool needs_fallback = false;
    if (!inside || !finite) {
      const float largest = block_max(own_largest(own, source, d.C, pixels, tiling.vector_in), &scratch);
      scale = scale_for(largest);
      const bool small = __syncthreads_or(!kHalf && seen.smallest < nonzero_bits(minimum / scale));
      needs_fallback = !finite || !(largest < kLargestScaled) || small;
      if (!needs_fallback) split_own<kWords>(own, source, d.C, pixels, tiling.vector_in, scale, hi, lo);
      __syncthreads();
    }
    // The next image is prefetched into L2 while this one is multiplied.
    if (image + gridDim.x < d.B) prefetch_l2(source + gridDim.x * image_floats, image_floats * 4, kThreads);
    if (needs_fallback) {
      fallback_image_band(source, k, out, d.C, d.H, d.W, d.M, K, 0, d.OH);
      continue;
    }
    const float image_unscale = 1.0f / scale;

    // The tile of the columns left over is less work than a strip, so the warps take turns at it from image to image.
    for (int tile = (warp + turn) % kWarps; tile < tiles; tile += kWarps) {
      const int rows = tile < tiling.strips ? d.OH : tiling.tail_rows;
      const Walk in = walk_at(tile, g, tiling, d.OH);
      const Walk a = walk_at(tile, 2 * t, tiling, d.OH), b = walk_at(tile, 2 * t + 1, tiling, d.OH);
      const uint32_t* from = hi + (in.start * d.W + in.column) * kWords + t;
      float* to_a = outgoing + g * tiling.stride + a.start * d.OW + a.column;
      float* to_b = outgoing + g * tiling.stride + b.start * d.OW + b.column;
      // sum[j] is output row r - 4 + j at input row r; small[j] has its products with a low part.
      float sum[K][4] = {}, small[K][4] = {};
      const int row_words = d.W * kWords;
      const auto shift = [&] {
        from += row_words;
#pragma unroll
        for (int j = 0; j < K; ++j)
#pragma unroll
          for (int e = 0; e < 4; ++e) {
            sum[j][e] = j + 1 < K ? sum[j + 1][e] : 0.0f;
            small[j][e] = j + 1 < K ? small[j + 1][e] : 0.0f;
          }
      };
      int row = 0;
      const auto output = [&](int e) {
        return (sum[0][e] + small[0][e] * (1.0f / kLowScale)) * filter_unscale * image_unscale;
      };
      const auto finish = [&] {
        if (row >= a.skipped) {
          to_a[0] = output(0);
          to_a[8 * tiling.stride] = output(2);
        }
        if (row >= b.skipped) {
          to_b[0] = output(1);
          to_b[8 * tiling.stride] = output(3);
        }
        ++row, to_a += d.OW, to_b += d.OW;
        shift();
      };
      multiply<kHalf, 4, 4>(sum, small, w_hi, w_lo, from, tiling.plane), shift();
      multiply<kHalf, 3, 4>(sum, small, w_hi, w_lo, from, tiling.plane), shift();
      multiply<kHalf, 2, 4>(sum, small, w_hi, w_lo, from, tiling.plane), shift();
      multiply<kHalf, 1, 4>(sum, small, w_hi, w_lo, from, tiling.plane), shift();
#pragma unroll 1
      while (row < rows - (K - 1)) multiply<kHalf, 0, 4>(sum, small, w_hi, w_lo, from, tiling.plane), finish();
      multiply<kHalf, 0, 3>(sum, small, w_hi, w_lo, from, tiling.plane), finish();
      multiply<kHalf, 0, 2>(sum, small, w_hi, w_lo, from, tiling.plane), finish();
      multiply<kHalf, 0, 1>(sum, small, w_hi, w_lo, from, tiling.plane), finish();
      multiply<kHalf, 0, 0>(sum, small, w_hi, w_lo, from, tiling.plane), finish();
    }
    bulk_fence();
    __syncthreads();
    if (kHasTma && tiling.vector_out) {
      // One copy per filter. TMA writes whole cache lines while the block splits and multiplies its next image.
      if (threadIdx.x < d.M) {
        bulk_store(out + threadIdx.x * plane, outgoing + threadIdx.x * tiling.stride, plane * 4);
        bulk_commit();
      }
    } else {
      store_filters<kWarps>(out, plane, outgoing, tiling.stride, d.M, plane, tiling.vector_out);
    }
  }
  bulk_wait_read();  // the block must not end before the copies have read its shared memory
}

Tiling tiling_for(const fops_conv& c) {
  Tiling tiling = {};
  const int64_t OH = out_h(c), OW = out_w(c), words = (c.C + 1) / 2;
  tiling.strips = static_cast<int>(OW / 8);
  tiling.tail_columns = static_cast<int>(OW % 8);
  if (tiling.tail_columns > 0)
    tiling.tail_rows = static_cast<int>(std::max<int64_t>(K - 1, ceil_div(OH, 8 / tiling.tail_columns)));
  tiling.stride = static_cast<int>(ceil_div(OH * OW - 4, 32) * 32 + 4);
  tiling.plane = static_cast<int>(ceil_div(c.H * c.W * words + kPad, 4) * 4);
  return tiling;
}

size_t shared_bytes(const fops_conv& c) {
  const Tiling tiling = tiling_for(c);
  return 4 * (2 * tiling.plane + kFilters * tiling.stride);
}

template <int kWords, bool kHalf>
fops_status run(const fops_conv& c, const float* x, const float* k, float* y, cudaStream_t stream) {
  const Dims d = dims(c);
  Tiling tiling = tiling_for(c);
  tiling.vector_in = d.H * d.W % 4 == 0 && reinterpret_cast<uintptr_t>(x) % 16 == 0;
  tiling.vector_out = d.OH * d.OW % 4 == 0 && reinterpret_cast<uintptr_t>(y) % 16 == 0;
  const size_t shared = shared_bytes(c);
  auto* kernel = tensor_core_column_strips<kWords, kHalf>;
  FOPS_TRY(allow_shared(kernel, shared));
  unsigned grid = 0;
  FOPS_TRY(resident_grid(kernel, kThreads, shared, d.B, &grid));
  kernel<<<grid, kThreads, shared, stream>>>(d, tiling, x, k, y);
  return launched("tensor-core");
}

template <bool kHalf>
fops_status run(const fops_conv& c, const float* x, const float* k, float* y, cudaStream_t stream) {
  switch ((c.C + 1) / 2) {
    case 1: return run<1, kHalf>(c, x, k, y, stream);
    case 2: return run<2, kHalf>(c, x, k, y, stream);
    default: return run<3, kHalf>(c, x, k, y, stream);
  }
}

}  // namespace

bool takes_column_strips(const fops_conv& c) {
  return takes_any(c) && c.x_type == FOPS_FLOAT32 && c.K == K && c.C > 1 && c.C <= 6 && c.M > 8 && c.M <= kFilters &&
         c.H <= 1024 && c.W <= 1024 && out_h(c) >= K - 1 && shared_bytes(c) <= 98 * 1024;
}

fops_status run_column_strips(const fops_conv& c, bool half, const void* x, const float* k, float* y,
                              cudaStream_t stream) {
  const float* input = static_cast<const float*>(x);
  return half ? run<true>(c, input, k, y, stream) : run<false>(c, input, k, y, stream);
}

}  // namespace fops
