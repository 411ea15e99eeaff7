// One channel, few filters: a column of the product is four neighbouring outputs (one in pixel_columns.cu).
//
//   weights of output s of a column, K = 5:   s = 0   k0 k1 k2 k3 k4  0  0  0
//                                             s = 1    0 k0 k1 k2 k3 k4  0  0
//                                             s = 2    0  0 k0 k1 k2 k3 k4  0
//                                             s = 3    0  0  0 k0 k1 k2 k3 k4
//
// With few filters, loading pixels takes longer than multiplying them. Here K + 3 pixels of a row serve four outputs.
// With up to four filters, a column has two rows of outputs: rows 0-3 of the product compute the upper row, rows 4-7
// the lower one.
// Costs: about half as many products more, with zeros.
// Gains: only a third as many loads.
#include "conv/hopper/variants/quad_columns.cuh"

#include <type_traits>

#include "conv/hopper/fallback.cuh"
#include "conv/hopper/scheduler.cuh"
#include "conv/hopper/variants.h"
#include "gpu/band_scale.cuh"
#include "gpu/divide.cuh"

namespace fops {
namespace {

using namespace quad_columns;

// The lane map. One mma: D (16 x 8) += A (16 x 16) x B (16 x 8). Lane 4g + t of a warp, g = 0..7, t = 0..3, holds
//
//   A: weights of output s    pairs of pixels      B: pixels            D: sums, float32
//                   0 1 2 3   4 5 6 7              column  g            columns  2t, 2t+1
//   row g      hi   t -> a0   t -> a2   filter g   pair t      -> b0    row g      -> d0 d1   high sums
//   row g + 8  lo   t -> a1   t -> a3              pair t + 4  -> b1    row g + 8  -> d2 d3   low sums
//
// Column g of B is column g / 2 + g % 2 * 4 of the eight columns of a turn, so that four lanes store 64 contiguous
// bytes.

struct Tiling {
  int rows;         // output rows per band
  int bands;        // bands per image
  int words;        // words of a band's pixels in shared memory, for the high or the low parts
  bool vector_in;   // whether each band of x begins at a multiple of four pixels and is a multiple of four pixels
  bool vector_out;  // whether y begins on a 16-byte boundary
  Divisor by_bands;
};

// Returns the minimum number of blocks per SM. The weights take 80 (K = 7) or 48 registers.
constexpr int min_blocks(int K) { return K == 7 ? 3 : 4; }

// A persistent block: it has its weights in registers, and processes one band after another. With more than eight
// filters, every second warp has filters 8 and up. For small batches the grid's z divides a band's columns among
// several blocks. Each of them stages the whole band, because the scale, and with it the results, must be the same in
// every batch.
template <int K, bool kTwoRows, typename X>
__global__ void __launch_bounds__(kThreads, min_blocks(K))
    tensor_core_quad_columns(Dims d, Tiling tiling, bool half, const X* __restrict__ x, const float* __restrict__ k,
                             float* __restrict__ y, unsigned* tile_counter) {
  constexpr int kTaps = K * K;
  extern __shared__ __align__(16) uint32_t shared[];
  __shared__ unsigned scratch, slot;
  const int warp = threadIdx.x / 32, tiles = d.M > 8 ? 2 : 1, tile = warp % tiles;
  uint32_t *hi = shared, *lo = shared + tiling.words;
  X* waiting = reinterpret_cast<X*>(shared + 2 * tiling.words);

  const float minimum = half ? 0.0f : min_scaled(kTaps);
  const auto [filter_scale, fits] = weight_scale(k, d.M * kTaps, minimum, kThreads, &scratch);
  // The assembler statement hides from the compiler where `finite` comes from. Otherwise it would keep the values from
  // which it is computed, and spill them.
  uint32_t finite = fits;
  asm volatile("" : "+r"(finite));
  const float unscale = 1.0f / kImageScale / filter_scale;
  uint32_t weights[kShifts][steps(K)][4];
  load_weights<K, kTwoRows>(k, d.M, tile, filter_scale, half, weights);

  Columns columns;
  columns.OW = d.OW, columns.words_per_row = d.W / 2;
  columns.per_row = d.OW / kShifts;
  const int plane = d.OH * d.OW, pad = (kTwoRows ? d.W / 2 : 0) + kShifts;
  const bool waits = kWaits<X> && tiling.vector_in;
  const auto pixels_of = [&](unsigned task, const X** source) {
    const long long image = tiling.by_bands.divide(task);
    const int h0 = static_cast<int>(task - image * tiling.bands) * tiling.rows;
    *source = x + (image * d.H + h0) * d.W;
    return (min(tiling.rows, d.OH - h0) + K - 1) * d.W;
  };
  const X* next;
  const unsigned tasks = static_cast<unsigned>(d.B * tiling.bands);
  PersistentTiles schedule;
  if (waits && schedule.now < tasks) {
    const int count = pixels_of(schedule.now, &next);
    fetch(next, count, waiting);
  }
  for (; schedule.now < tasks; schedule.advance(&slot)) {
    const long long image = tiling.by_bands.divide(schedule.now);
    const int h0 = static_cast<int>(schedule.now - image * tiling.bands) * tiling.rows;
    const int rows = min(tiling.rows, d.OH - h0), count = (rows + K - 1) * d.W;
    const X* source = x + (image * d.H + h0) * d.W;
    float* out = y + image * d.M * plane + h0 * d.OW;

    copy_async_wait_all();
    bool exact = waits ? stage<false>(waiting, count, pad, true, kImageScale, hi, lo)
                       : stage<false>(source, count, pad, tiling.vector_in, kImageScale, hi, lo);
    exact = !__syncthreads_or(!exact);  // for exact pixels, such as an image's, this check is the only additional cost
    schedule.claim(&slot, tile_counter);
    float scale = kImageScale;  // 0 if the pixels cannot be split well
    const auto stage_again = [&](const X* from, bool vector) {
      scale = finite ? band_scale<kThreads>(from, count, minimum, &scratch) : 0.0f;
      if (scale != 0.0f) stage<true>(from, count, pad, vector, scale, hi, lo);
    };
    if (!exact || !finite) {
      waits ? stage_again(waiting, true) : stage_again(source, tiling.vector_in);
      __syncthreads();
    }
    // Starts loading the next band, which overlaps with this band's products. Not sooner, because the band in `waiting`
    // may be staged twice.
    if (schedule.next < tasks) {
      const int more = pixels_of(schedule.next, &next);
      if (waits)
        fetch(next, more, waiting);
      else
        prefetch_l2(next, more * static_cast<int>(sizeof(X)), kThreads);
    }
    if (scale == 0.0f) {
      fallback_image_band(source - h0 * d.W, k, out - h0 * d.OW, 1, d.H, d.W, d.M, K, h0, rows,
                          blockIdx.z * kThreads + threadIdx.x, gridDim.z * kThreads);
      __syncthreads();
      continue;
    }
    const float rescale = kImageScale / scale;

    columns.rows = rows;
    columns.count = (kTwoRows ? (rows + 1) / 2 : rows) * columns.per_row;
    const int first = (blockIdx.z * kWarps + warp) / tiles * kColumns, step = gridDim.z * kWarps / tiles * kColumns;
    const auto products = [&](auto exactly, auto vector) {
      multiply<exactly, vector, K, kTwoRows>(weights, columns, tile, d.M, exactly ? unscale * rescale : unscale,
                                             rescale, hi, lo, out, plane, first, step);
    };
    const bool simple = exact || half;
    if (tiling.vector_out)
      simple ? products(std::true_type(), std::true_type()) : products(std::false_type(), std::true_type());
    else
      simple ? products(std::true_type(), std::false_type()) : products(std::false_type(), std::false_type());
    __syncthreads();
  }
}

// Target for the bytes of a band's outputs.
constexpr int64_t kBand = 40 << 10;

size_t shared_bytes(const Tiling& tiling, bool waits) {
  return (2 + 2 * waits) * sizeof(uint32_t) * tiling.words;  // a pixel in `waiting` takes 4 bytes, like a staged pair
}

Tiling tiling_for(const fops_conv& c) {
  Tiling tiling = {};
  const int64_t OH = out_h(c), OW = out_w(c);
  const int64_t maximum = std::max<int64_t>(1, kBand / 4 / c.M / OW);
  int64_t rows = ceil_div(OH, ceil_div(OH, maximum));
  while (rows < OH && rows % 2 != 0) ++rows;  // rounds up to whole pairs of rows
  tiling.rows = static_cast<int>(rows);
  tiling.bands = static_cast<int>(ceil_div(OH, rows));
  tiling.by_bands = Divisor(static_cast<uint32_t>(tiling.bands));
  tiling.words = static_cast<int>(ceil_div((rows + c.K) * c.W / 2 + kShifts, 4) * 4);
  return tiling;
}

template <int K, bool kTwoRows>
fops_status run(const fops_conv& c, bool half, const void* x, const float* k, float* y, cudaStream_t stream) {
  const Dims d = dims(c);
  Tiling tiling = tiling_for(c);
  const bool whole = tiling.bands == 1;
  tiling.vector_out = reinterpret_cast<uintptr_t>(y) % 16 == 0;
  tiling.vector_in = d.H * d.W % 4 == 0 && (whole || (tiling.rows * d.W % 4 == 0 && (K - 1) * d.W % 4 == 0)) &&
                     reinterpret_cast<uintptr_t>(x) % (4 * (c.x_type == FOPS_UINT8 ? 1 : 4)) == 0;
  return with_input(c, x, [&](auto typed) {
    using In = std::remove_cv_t<std::remove_pointer_t<decltype(typed)>>;
    auto* kernel = tensor_core_quad_columns<K, kTwoRows, In>;
    const size_t shared = shared_bytes(tiling, kWaits<In> && tiling.vector_in);
    return in_pieces(c, tiling.bands, [&](const Dims& piece, long long first) {
      unsigned grid = 0;
      FOPS_TRY(resident_grid(kernel, kThreads, shared, piece.B * tiling.bands, &grid));
      const int64_t columns = ceil_div(tiling.rows, kTwoRows ? 2 : 1) * (d.OW / kShifts) * (d.M > 8 ? 2 : 1);
      unsigned slices = 1;
      FOPS_TRY(slices_for(piece.B * tiling.bands, ceil_div(columns, kWarps * kColumns), &slices));
      TileCounter tile_counter(stream);
      FOPS_TRY(tile_counter.reserve(piece.B * tiling.bands, grid));
      kernel<<<dim3(grid, 1, slices), kThreads, shared, stream>>>(
          piece, tiling, half, typed + first * d.H * d.W, k, y + first * d.M * d.OH * d.OW, tile_counter.counters());
      return launched("tensor-core");
    });
  });
}

}  // namespace

bool takes_quad_columns(const fops_conv& c) {
  return takes_any(c) && c.C == 1 && (c.K == 5 || c.K == 7) && c.M <= (c.K == 5 ? 16 : 8) && out_w(c) % kShifts == 0 &&
         out_h(c) * out_w(c) % 8 == 0 && out_w(c) > kShifts && c.H <= 1 << 15 && c.W <= 1024 &&
         shared_bytes(tiling_for(c), true) <= kEveryGpuShared;
}

fops_status run_quad_columns(const fops_conv& c, bool half, const void* x, const float* k, float* y,
                             cudaStream_t stream) {
  if (c.K == 5) return c.M <= 4 ? run<5, true>(c, half, x, k, y, stream) : run<5, false>(c, half, x, k, y, stream);
  return c.M <= 4 ? run<7, true>(c, half, x, k, y, stream) : run<7, false>(c, half, x, k, y, stream);
}

}  // namespace fops
