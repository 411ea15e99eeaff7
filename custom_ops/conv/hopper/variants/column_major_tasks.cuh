// For column_major_tiles.cu: tasks of 64 columns of outputs, splitting the weights, and the fallback.
#pragma once

#include <algorithm>
#include <climits>
#include <utility>  // integer_sequence

#include "conv/hopper/fallback.cuh"
#include "conv/hopper/split.cuh"
#include "gpu/divide.cuh"
#include "gpu/isa/bulk_copy.cuh"
#include "gpu/isa/wgmma.cuh"
#include "gpu/largest.cuh"

namespace fops::column_major {

constexpr int kTileColumns = 64;      // columns of outputs per task: the rows of a wgmma
constexpr int kProducerThreads = 96;  // producer threads per team, each for one column of pixels
constexpr int kMinColumns = 8;  // minimum output width of an image; 64 columns then span at most kMaxImages images
constexpr int kMaxImages = 9;
constexpr int kStride = kTileColumns + 4;  // floats from one filter's outputs to the next; 4 more avoid bank conflicts

struct Tiling {
  unsigned whole;   // number of first tiles that are one task each; in the other tiles each band is a task
  int bands, rows;  // bands per such tile; output rows per band, a multiple of the rows of a phase
  int positions;    // staged columns per row of pixels
  int chunk;        // words of 8 bytes (a high and a low word) per chunk
  unsigned tasks;   // number of tasks; tiles are 64 columns of all images' outputs, side by side
  bool pairs;       // whether a lane can store two neighbouring outputs with 8 bytes
  Divisor by_columns, by_bands;
  uint32_t inverse_W;
  float threshold;  // minimum scaled magnitude of a nonzero value: see ImageScale
};

// Whether there is a producer thread for each column of pixels that a task stages. Also limits the image's size.
inline bool fits_producers(const fops_conv& c) {
  return out_w(c) >= kMinColumns && c.H <= 4096 && c.W <= 4096 && c.H * c.W <= 1 << 20 &&
         kTileColumns + (ceil_div(kTileColumns - 1, out_w(c)) + 1) * (c.K - 1) <= kProducerThreads;
}

// Chooses the bands of `tiles` tiles, and returns the time that they take, in the time of a row of pixels. More bands
// make more tasks, but each band adds K - 1 rows of pixels, and the time of four rows to start. `teams`: number of
// teams, each of which processes one task at a time.
inline long long cut_into_bands(const Dims& d, long long tiles, int phase, long long teams, Tiling* tiling) {
  long long minimum = LLONG_MAX;
  for (int rows = static_cast<int>(ceil_div(d.OH, phase)) * phase; rows >= 1; rows -= phase) {
    const long long bands = ceil_div(d.OH, rows), cost = ceil_div(tiles * bands, teams) * (rows + d.K - 1 + 4);
    if (cost < minimum) minimum = cost, tiling->rows = rows, tiling->bands = static_cast<int>(bands);
  }
  return minimum;
}

// Returns the tiling. `phase`: number of rows of outputs that are completed together. If it is faster than cutting all
// tiles, only the tiles of the last, incomplete round are cut into bands.
inline Tiling cut_into_column_tiles(const Dims& d, int phase, long long teams) {
  Tiling tiling = {};
  tiling.by_columns = Divisor(static_cast<uint32_t>(d.OW));
  tiling.inverse_W = inverse_of(static_cast<uint32_t>(d.W));
  tiling.threshold = min_scaled(static_cast<float>(d.C * d.K * d.K));
  const long long images = std::min<long long>(ceil_div(kTileColumns - 1, d.OW) + 1, d.B);
  tiling.positions = static_cast<int>(kTileColumns + images * (d.K - 1));
  const long long tiles = ceil_div(d.B * d.OW, kTileColumns), rounds = tiles / teams, rest = tiles - rounds * teams;
  const long long all = cut_into_bands(d, tiles, phase, teams, &tiling);
  if (rounds > 0 && rest > 0) {
    Tiling other = tiling;
    if (rounds * (d.OH + d.K - 1 + 4) + cut_into_bands(d, rest, phase, teams, &other) < all) {
      tiling = other;
      tiling.whole = static_cast<unsigned>(rounds * teams);
    }
  }
  tiling.by_bands = Divisor(static_cast<uint32_t>(tiling.bands));
  tiling.tasks = static_cast<unsigned>(tiling.whole + (tiles - tiling.whole) * tiling.bands);
  return tiling;
}

// The output rows to which a row of pixels contributes, as a range of places: place p is the output row p rows up. At
// an image's first rows of pixels the last places do not exist, at its last rows the first ones.
template <int kFirst_, int kLast_>
struct Places {
  static constexpr int kFirst = kFirst_, kLast = kLast_, kCount = kLast - kFirst + 1;
};

// Copies the weights to `staged`, in shared memory, and computes the filters' scales; then calls split(0) to
// split(units - 1), which must split the weights and store them where wgmma reads them. So threads wait for global
// memory only once. unscale[m] receives the factor that undoes filter m's scale, *fallback whether a weight is
// unsplittable. kThreads threads call this; they synchronise at `barrier`.
template <int kThreads, int kFilters, typename Split>
__device__ __forceinline__ void split_filters(const Dims& d, float threshold, const float* __restrict__ k,
                                              float* staged, int barrier, int units, float* unscale, uint32_t* fallback,
                                              Split split) {
  constexpr int kWarps = kThreads / 32, kEach = kFilters / kWarps;
  static_assert(kFilters % kWarps == 0, "");
  const int taps = d.C * d.K * d.K;
  const bool needs_fallback = hopper::filter_scales<kWarps, kEach, 7>(
      d, taps, threshold, k, unscale, [&](int m, int i, float weight) { staged[m * taps + i] = weight; });
  if (threadIdx.x == 0) *fallback = 0;
  named_barrier(barrier, kThreads);
  if (needs_fallback) *fallback = 1;
#pragma unroll 2
  for (int i = threadIdx.x; i < units; i += kThreads) split(i);
  bulk_fence();
  named_barrier(barrier, kThreads);
}

template <int kValue>
using Number = std::integral_constant<int, kValue>;

// Calls then(0) to then(kCount - 1), with compile-time constants.
template <int... kNumbers, typename Then>
__device__ __forceinline__ void each(std::integer_sequence<int, kNumbers...>, Then then) {
  (then(Number<kNumbers>()), ...);
}
template <int kCount, typename Then>
__device__ __forceinline__ void each(Then then) {
  each(std::make_integer_sequence<int, kCount>(), then);
}

// Returns threadIdx.x, which it reads anew in each call. So the compiler computes values that depend on it again
// instead of spilling them.
__device__ __forceinline__ uint32_t thread_anew() {
  uint32_t thread;
  asm volatile("mov.u32 %0, %%tid.x;" : "=r"(thread));
  return thread;
}

struct Task {
  int image, column;  // image, and column in that image, of the first column
  int h0, rows;       // first output row, and number of rows; the last rows of a band may be below the image
  __device__ Task(const Tiling& tiling, const Dims& d, unsigned task) {
    unsigned tile = task;
    if (task < tiling.whole) {
      h0 = 0, rows = d.OH;
    } else {
      const unsigned band = task - tiling.whole, behind = tiling.by_bands.divide(band);
      tile = tiling.whole + behind, h0 = static_cast<int>(band - behind * tiling.bands) * tiling.rows;
      rows = tiling.rows;
    }
    const unsigned first = tile * kTileColumns;
    image = static_cast<int>(tiling.by_columns.divide(first));
    column = static_cast<int>(first) - image * d.OW;
  }
  __device__ int images(const Dims& d) const {
    return static_cast<int>(min(static_cast<long long>((column + kTileColumns - 1) / d.OW + 1), d.B - image));
  }
};

// A column of the pixels that a task stages: of each image, the columns of the task's outputs, and the next K - 1.
//
//   output columns  |  27 28 | 0 1 2 ... 28 | 0 1 ...          of images i, i + 1, i + 2
//   staged columns  |  27 28 .. 32 | 0 1 2 ... 32 | 0 1 ...
struct Column {
  int image, at;  // number of its image, counted from the task's first; column in the image
  __device__ Column(const Tiling& tiling, const Dims& d, const Task& task, int position) {
    const int first = d.W - task.column;  // columns of the first image
    const bool in_first = position < first;
    image = in_first ? 0 : divide(position - first, tiling.inverse_W) + 1;
    at = in_first ? task.column + position : position - first - (image - 1) * d.W;
  }
};
struct OutputColumn {
  int image, column,  // number of its image, counted from the task's first; column in that image's output
      position;       // its first staged column of pixels
  __device__ OutputColumn(const Tiling& tiling, const Dims& d, const Task& task, int index) {
    const int at = task.column + index;
    image = static_cast<int>(tiling.by_columns.divide(at));
    column = at - image * d.OW;
    position = index + image * (d.K - 1);
  }
};

// Recomputes the outputs of a task that depend on an unsplittable value (if `all`, all outputs) by the float32
// fallback. 128 threads call this; they synchronise at `barrier`. The function is `inline`, not `static`: with a name
// that depends on the file's path, ptxas spills in the kernels that call it.
inline __device__ __noinline__ void fallback_task(const Dims& d, const Tiling& tiling, int barrier, bool all,
                                                  unsigned at, const ImageScale* scales, const float* x, const float* k,
                                                  float* y, int filters, FallbackScratch& room) {
  const int pixels = d.H * d.W, plane = d.OH * d.OW, thread = threadIdx.x % 128;
  const Task task(tiling, d, at);
  const float* source = x + 1LL * task.image * d.C * pixels;
  const OutputColumn output(tiling, d, task, thread % kTileColumns);
  const int rows = min(task.rows, d.OH - task.h0), images = OutputColumn(tiling, d, task, kTileColumns - 1).image + 1;
  const auto together = [&] { named_barrier(barrier, 128); };
  together();
  if (thread == 0) room.found.count = 0;
  together();
  for (int n = 0; n < images && task.image + n < d.B && !all; ++n)
    find_unsplittable(d, source, scales[n], n * d.C * pixels + task.h0 * d.W, (rows + d.K - 1) * d.W, &room.found,
                      thread, 128);
  for (int row = 0; row < rows; row += 2) {
    together();
    if (thread == 0) room.listed = 0;
    together();
    const int h = row + thread / kTileColumns,
              corner = output.image * d.C * pixels + (task.h0 + h) * d.W + output.column;
    room.offsets[thread] = output.image * d.M * plane + (task.h0 + h) * d.OW + output.column;
    room.corners[thread] = corner;
    if (h < rows && task.image + output.image < d.B &&
        (all || room.found.enters(d, source, corner, scales[output.image])))
      room.list[atomicAdd(&room.listed, 1)] = thread;  // the order does not matter: outputs are independent
    together();
    fallback_outputs(d, source, k, y + 1LL * task.image * d.M * plane, room.offsets, room.corners, room.list,
                     room.listed, 0, filters, thread, 128);
  }
  together();
}

}  // namespace fops::column_major
