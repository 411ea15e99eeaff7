// One input channel: a column of the product is one output. Read this file first.
//
//   weight = high part + low part, two halves with 22 or more of its 24 bits;   pixel 0..255 = one half, exactly
//   sum    = high x pixel + low x pixel; each product is exact, and is added in float32
//
// Tensor cores multiply halves fifteen times faster than the float32 pipes multiply floats, so two products are cheap.
// Weights stay in registers; a block processes one band of an image after another.
// Costs: 25 taps are padded to 32 and 50 filters to 56. If some pixels of a band are not exact in half precision, which
// is detected during staging, their low parts need a third and a fourth product.
// Gains: the stores of the output are the limit, not the arithmetic.
#include "conv/hopper/variants/pixel_columns.cuh"

#include <type_traits>

#include "conv/hopper/epilogue.cuh"
#include "conv/hopper/fallback.cuh"
#include "conv/hopper/scheduler.cuh"
#include "conv/hopper/variants.h"
#include "conv/hopper/variants/pixel_columns_pairs.cuh"
#include "gpu/band_scale.cuh"
#include "gpu/divide.cuh"
#include "gpu/isa/bulk_copy.cuh"
#include "gpu/isa/halves.cuh"

namespace fops {
namespace {

using namespace pixel_columns;  // pixel_columns.cuh: staging, and the products of a band

// The lane map. One mma: D (16 x 8) += A (16 x 16) x B (16 x 8). Lane 4g + t of a warp, g = 0..7, t = 0..3, holds
//
//   A: weights            pairs of taps           B: pixels           D: sums, float32
//                   0 1 2 3   4 5 6 7             column  g                columns  2t, 2t+1
//   row g      hi   t -> a0   t -> a2    filter   pair t      -> b0        row g      -> d0 d1   high sums of filter g
//   row g + 8  lo   t -> a1   t -> a3    g        pair t + 4  -> b1        row g + 8  -> d2 d3   low sums of filter g
//
// So a lane has the high and low sums of a filter's outputs, and adds them. A chunk of 16 outputs takes two mma tiles:
// column n of tile j is output 4 (n / 2) + 2 j + n % 2 of the chunk, so that lane t has outputs 4t to 4t + 3:
//
//   outputs   0 1    2 3    4 5    6 7    8 9    10 11  12 13  14 15
//   tile      0      1      0      1      0      1      0      1
//   columns   0 1    0 1    2 3    2 3    4 5    4 5    6 7    6 7
//   lane t    0             1             2             3              one 16-byte store each

// A band is some rows of one image's output, for all filters of a block. Its pixels are staged in shared memory as
// words. Its outputs are stored from registers to global memory (direct), or gathered in shared memory in a row of
// `stride` floats per filter.

// Returns the number of warps per block. If outputs go through shared memory, two blocks share an SM; then blocks of
// four warps would be slower.
__host__ __device__ constexpr int warps(bool direct) { return direct ? 4 : 8; }

// Returns the minimum number of blocks per SM, which limits the registers per thread. With eight blocks (64 registers),
// two tiles of 7x7 filters would spill.
__host__ __device__ constexpr int min_blocks(bool direct, int tiles, int K) {
  return !direct ? 2 : tiles > 2 ? 4 : tiles * steps(K) <= 4 ? 8 : 6;
}

struct Tiling {
  int filters;      // number of filters of y; a block computes d.M of them, part blockIdx.y
  int rows;         // output rows per band
  int bands;        // bands per image
  int slice;        // number of a band's outputs that a block computes, slice blockIdx.z; all, except in small batches
  int words;        // words of a band's pixels in shared memory, for the high or the low parts; a multiple of 4
  int stride;       // a multiple of 32 plus 16 or 20, so that neighbouring filters' stores use different banks
  bool vector_in;   // whether each band of x begins at a multiple of four pixels
  bool vector_out;  // whether each band of y begins on a 16-byte boundary and is a multiple of 16 bytes
  uint32_t inverse_OW;
  Divisor by_bands;
};

// A persistent block: it has its weights in registers, and processes one band after another. A block that computes only
// a slice of a band still stages the whole band, so that the band's scale, and with it the results, are the same in
// every batch. kTiles: number of mma tiles of 16 rows, for eight filters each; with kPairs (pixel_columns_pairs.cuh)
// four each.
template <int K, int kTiles, bool kDirect, bool kPairs, typename X>
__global__ void __launch_bounds__(32 * warps(kDirect), min_blocks(kDirect, kTiles, K))
    tensor_core_pixel_columns(Dims d, Tiling tiling, bool half, const X* __restrict__ x, const float* __restrict__ k,
                              float* __restrict__ y, unsigned* tile_counter) {
  const int m0 = static_cast<int>(blockIdx.y) * d.M;
  d.M = min(d.M, tiling.filters - m0);
  constexpr int kSteps = steps(K), kTaps = K * K, kWarps = warps(kDirect), kThreads = 32 * kWarps;
  extern __shared__ __align__(16) uint32_t shared[];
  __shared__ unsigned scratch, slot;
  const int lane = threadIdx.x % 32, g = lane / 4, t = lane % 4;
  k += m0 * kTaps;
  uint32_t *hi = shared, *lo = shared + tiling.words;
  float* staged = reinterpret_cast<float*>(shared + 2 * tiling.words);

  // All weights have the same scale. Their high and low parts are loaded into the registers that the mma needs.
  const float minimum = half ? 0.0f : min_scaled(kTaps);
  const auto [filter_scale, finite] = weight_scale(k, d.M * kTaps, minimum, kThreads, &scratch);
  const float unscale = 1.0f / kImageScale / filter_scale;
  uint32_t weights[kTiles][kSteps][4];
  if constexpr (kPairs)
    load_pair_weights<K>(k, d.M, filter_scale, half, weights);
  else
    load_weights<K>(k, d.M, filter_scale, half, weights);

  int offset[2 * kSteps];  // byte offsets of this lane's pairs of taps from the window's top left pixel
#pragma unroll
  for (int i = 0; i < 2 * kSteps; ++i) {
    const int pair = min(i * 4 + t, K * pairs_per_row(K) - 1);
    offset[i] = 4 * (pair / pairs_per_row(K) * d.W + pair % pairs_per_row(K) * 2);
  }

  const int plane = d.OH * d.OW;
  const unsigned tasks = static_cast<unsigned>(d.B * tiling.bands);
  PersistentTiles schedule;
  for (; schedule.now < tasks; schedule.advance(&slot)) {
    const long long image = tiling.by_bands.divide(schedule.now);
    const int h0 = static_cast<int>(schedule.now - image * tiling.bands) * tiling.rows;
    const int rows = min(tiling.rows, d.OH - h0), pixels = rows * d.OW, count = (rows + K - 1) * d.W;
    const X* source = x + (image * d.H + h0) * d.W;
    float* out = y + (image * tiling.filters + m0) * plane + h0 * d.OW;

    bool exact = stage<false, kThreads>(source, count, tiling.vector_in, kImageScale, hi, lo);
    bulk_wait_read();                   // the copies of the previous band's outputs have read `staged`
    exact = !__syncthreads_or(!exact);  // for exact pixels, such as an image's, this check is the only additional cost
    schedule.claim(&slot, tile_counter);
    float rescale = 1.0f;
    if (!exact || !finite) {
      const float scale = finite ? band_scale<kThreads>(source, count, minimum, &scratch) : 0.0f;
      if (scale == 0.0f) {
        fallback_image_band(source - h0 * d.W, k, out - h0 * d.OW, 1, d.H, d.W, d.M, K, h0, rows,
                            blockIdx.z * kThreads + threadIdx.x, gridDim.z * kThreads);
        __syncthreads();
        continue;
      }
      stage<true, kThreads>(source, count, tiling.vector_in, scale, hi, lo);
      rescale = kImageScale / scale;
      __syncthreads();
    }

    if (schedule.next < tasks) {
      const long long next = tiling.by_bands.divide(schedule.next);
      const int next_h0 = static_cast<int>(schedule.next - next * tiling.bands) * tiling.rows;
      const X* from = x + (next * d.H + next_h0) * d.W;
      const int bytes = min(tiling.rows + K - 1, d.H - next_h0) * d.W * static_cast<int>(sizeof(X));
      prefetch_l2(from, bytes, kThreads);
    }

    const int first = blockIdx.z * tiling.slice, end = min(pixels, first + tiling.slice);  // empty if end <= first
    // TMA is half as fast if source and destination have different offsets from a 32-byte boundary. Every second plane
    // of 4,356 floats has another offset. So `stride` differs from a plane by a multiple of eight floats, and the first
    // row has the same offset as the band in y.
    float* const rows_out = staged + (reinterpret_cast<uintptr_t>(out) / 4 - shared_address(staged) / 4) % 8 / 4 * 4;
    float* to = kDirect ? out : rows_out;
    const int stride = kDirect ? plane : tiling.stride;
    const auto products = [&](auto exactly) {
      const float back = exactly ? unscale * rescale : unscale;
      if constexpr (kPairs)
        multiply_pairs<exactly, kWarps, K>(weights, offset, back, rescale, hi, lo, to, stride, first, end,
                                           tiling.inverse_OW);
      else
        multiply<exactly, kDirect, kWarps, K>(weights, offset, back, rescale, hi, lo, to, stride, d.M, first, end,
                                              tiling.inverse_OW);
    };
    exact || half ? products(std::true_type()) : products(std::false_type());
    if (kDirect) {
      __syncthreads();
      continue;
    }

    bulk_fence();
    __syncthreads();
    if (kHasTma && tiling.vector_out) {
      // One copy per filter. TMA writes whole cache lines while the block stages and multiplies its next band. Starting
      // a copy takes time, so the warps share that work.
      if (lane == 0 && first < end) {
        for (int m = threadIdx.x / 32; m < d.M; m += kWarps)
          bulk_store(out + m * plane + first, rows_out + m * tiling.stride + first, (end - first) * 4);
        bulk_commit();
      }
    } else {
      store_filters<kWarps>(out + first, plane, rows_out + first, tiling.stride, d.M, end - first, tiling.vector_out);
    }
  }
  bulk_wait_read();  // the block must not end before the copies have read its shared memory
}

size_t shared_bytes(const Tiling& tiling, const fops_conv& c) {
  return sizeof(float) * (2 * tiling.words + ceil_div(c.M, 8) * 8 * tiling.stride);
}

// Target for the bytes of a band's outputs.
constexpr int64_t kDirectBand = 48 << 10, kStagedBand = 96 << 10;
constexpr int kRoomy = 160 << 10;  // GPUs with less shared memory per block use kDirectBand in both cases

Tiling tiling_for(const fops_conv& c, int64_t band) {
  Tiling tiling;
  const int64_t OH = out_h(c), OW = out_w(c);
  const int64_t maximum = std::max<int64_t>(1, band / 4 / (ceil_div(c.M, 8) * 8) / OW);
  int64_t rows = ceil_div(OH, ceil_div(OH, maximum));
  while (rows < OH && rows * OW % 4 != 0) ++rows;  // up to a multiple of 16 bytes; at most three more rows
  tiling.rows = static_cast<int>(rows);
  tiling.bands = static_cast<int>(ceil_div(OH, rows));
  tiling.by_bands = Divisor(static_cast<uint32_t>(tiling.bands));
  tiling.words = static_cast<int>(ceil_div((rows + c.K - 1) * c.W, 4) * 4);
  const int64_t outputs = ceil_div(rows * OW, kChunk) * kChunk + 4;
  tiling.stride = static_cast<int>(ceil_div(outputs, 32) * 32 + 16 + OH * OW % 8 / 4 * 4);
  tiling.inverse_OW = inverse_of(static_cast<uint32_t>(OW));
  return tiling;
}

// Returns the maximum number of tiles with pixel_columns_pairs.cuh. With more filters, loads are not the limit; for
// more than four tiles of 7x7 there are not enough registers.
constexpr int max_pair_tiles(int K) { return K == 7 ? 4 : 5; }

template <int K, int kTiles>
fops_status run(const fops_conv& c, int64_t filters, bool half, const void* x, const float* k, float* y,
                cudaStream_t stream) {
  const Dims d = dims(c);
  // Planes of whole 32-byte sectors are stored from registers, 64 bytes per filter and warp. A plane of 4,356 floats is
  // not whole sectors, so the 64 bytes of every second filter would begin and end inside a sector. Such planes go
  // through shared memory, where runs are some kilobytes long and only their ends are partial sectors.
  const bool direct = d.OH * d.OW % 8 == 0 && reinterpret_cast<uintptr_t>(y) % 32 == 0 &&
                      tiling_for(c, kDirectBand).rows * d.OW % 4 == 0;
  int max_shared = 0;
  FOPS_TRY(device_attribute(cudaDevAttrMaxSharedMemoryPerBlockOptin, &max_shared));
  Tiling tiling = tiling_for(c, !direct && max_shared >= kRoomy ? kStagedBand : kDirectBand);
  const bool whole = tiling.bands == 1;
  tiling.filters = static_cast<int>(filters);
  tiling.vector_out = d.OH * d.OW % 4 == 0 && (whole || tiling.rows * d.OW % 4 == 0) &&
                      reinterpret_cast<uintptr_t>(y) % 16 == 0;
  tiling.vector_in = d.H * d.W % 4 == 0 && (whole || tiling.rows * d.W % 4 == 0) &&
                     reinterpret_cast<uintptr_t>(x) % (4 * (c.x_type == FOPS_UINT8 ? 1 : 4)) == 0;
  const size_t shared = direct ? 2 * sizeof(uint32_t) * tiling.words : shared_bytes(tiling, c);
  return with_input(c, x, [&](auto typed) {
    using In = std::remove_cv_t<std::remove_pointer_t<decltype(typed)>>;
    auto* kernel = direct ? tensor_core_pixel_columns<K, kTiles, true, false, In>
                          : tensor_core_pixel_columns<K, kTiles, false, false, In>;
    if (!direct && d.OW % 2 == 0) {
      constexpr int kMore = 2 * kTiles, kLess = kMore - 1;  // tiles of four filters each
      const bool less = c.M <= kFiltersOfTile * kLess;
      if constexpr (kLess <= max_pair_tiles(K))
        if (less) kernel = tensor_core_pixel_columns<K, kLess, false, true, In>;
      if constexpr (kMore <= max_pair_tiles(K))
        if (!less) kernel = tensor_core_pixel_columns<K, kMore, false, true, In>;
    }
    const int threads = 32 * warps(direct);
    return in_pieces(c, tiling.bands, [&](const Dims& piece, long long first) {
      unsigned grid = 0;
      FOPS_TRY(resident_grid(kernel, threads, shared, piece.B * tiling.bands, &grid));
      const unsigned parts = static_cast<unsigned>(ceil_div(filters, c.M));
      const int turn = warps(direct) * kChunk, turns = static_cast<int>(ceil_div(tiling.rows * d.OW, turn));
      unsigned slices = 1;
      FOPS_TRY(slices_for(piece.B * tiling.bands * parts, turns, &slices));
      tiling.slice = static_cast<int>(ceil_div(turns, slices)) * turn;
      const dim3 blocks(grid, parts, slices);
      TileCounter tile_counter(stream);
      FOPS_TRY(tile_counter.reserve(piece.B * tiling.bands, blocks.x, blocks.y));
      kernel<<<blocks, threads, shared, stream>>>(piece, tiling, half, typed + first * d.H * d.W, k,
                                                  y + first * filters * d.OH * d.OW, tile_counter.counters());
      return launched("tensor-core");
    });
  });
}

// Returns the maximum number of tiles per block. 49 taps are four steps of weights; 64 such filters would take 128
// registers.
constexpr int max_tiles(int K) { return K == 7 ? 4 : 8; }

// Returns `c` with the number of filters per block: all filters, or the size of a part if they are divided into as few
// parts as possible, which are as even as whole tiles allow.
fops_conv part_of(const fops_conv& c) {
  const int64_t parts = ceil_div(c.M, 8 * max_tiles(static_cast<int>(c.K)));
  fops_conv part = c;
  part.M = parts == 1 ? c.M : ceil_div(ceil_div(c.M, parts), 8) * 8;
  return part;
}

template <int K, int kTiles = 1>
fops_status run_tiles(const fops_conv& c, int64_t filters, bool half, const void* x, const float* k, float* y,
                      cudaStream_t stream) {
  if constexpr (kTiles < max_tiles(K)) {
    if (c.M > 8 * kTiles) return run_tiles<K, kTiles + 1>(c, filters, half, x, k, y, stream);
  }
  return run<K, kTiles>(c, filters, half, x, k, y, stream);
}

}  // namespace

bool takes_pixel_columns(const fops_conv& c) {
  if (!takes_any(c) || c.C != 1 || (c.K != 5 && c.K != 7) || c.M > 512 || c.H > 1 << 15 || c.W > 1024 || out_w(c) < 2)
    return false;
  const fops_conv part = part_of(c);
  const Tiling direct = tiling_for(part, kDirectBand), staged = tiling_for(part, kStagedBand);
  return shared_bytes(direct, part) <= kEveryGpuShared && staged.rows * out_w(c) < 65536 &&
         shared_bytes(staged, part) <= kRoomy && saturating(1.0 * c.M * out_h(c) * out_w(c)) <= INT_MAX;
}

fops_status run_pixel_columns(const fops_conv& c, bool half, const void* x, const float* k, float* y,
                              cudaStream_t stream) {
  const fops_conv part = part_of(c);
  return c.K == 5 ? run_tiles<5>(part, c.M, half, x, k, y, stream) : run_tiles<7>(part, c.M, half, x, k, y, stream);
}

}  // namespace fops
