// column_major_tiles.cu: tasks of 64 columns of outputs, the order in which weights are split, and the fallback.
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

namespace fops {
namespace column_major {

constexpr int kTileColumns = 64;      // columns per task: the rows of a wgmma
constexpr int kProducerThreads = 96;  // producer threads per row of pixels, one column each
constexpr int kMinColumns = 8;        // columns of outputs; so 64 columns come from at most kMaxImages images
constexpr int kMaxImages = 9;
constexpr int kStride = kTileColumns + 4;  // floats between two filters' staged outputs: 4 banks

struct Tiling {
  unsigned whole;    // the first tiles, one task each; the others are cut into bands, one task each
  int bands, rows;   // bands per such tile, and their output rows: a multiple of a phase's
  int positions;     // staged positions per row of pixels, an even number
  int chunk;         // words per chunk
  unsigned tasks;    // tasks of tiles of 64 columns of outputs, all images side by side
  bool pairs;        // whether two neighbouring outputs are 8 aligned bytes of one image
  Divisor by_columns, by_bands;
  uint32_t inverse_W;
  float threshold;  // smallest scaled magnitude that can be split: see ImageScale
};

// Whether a row of pixels of 64 columns has a thread for each of its columns.
inline bool fits_producers(const fops_conv& c) {
  return out_w(c) >= kMinColumns && c.H <= 4096 && c.W <= 4096 && c.H * c.W <= 1 << 20 &&
         kTileColumns + (ceil_div(kTileColumns - 1, out_w(c)) + 1) * (c.K - 1) <= kProducerThreads;
}

// Chooses the bands of `tiles` tiles. More bands make more tasks, but each adds K - 1 rows of pixels and takes a few
// rows' time to start. Returns how long they take, in rows of pixels. `teams`: teams, each of which has one task at a
// time.
inline long long cut_into_bands(const Dims& d, long long tiles, int phase, long long teams, Tiling* tiling) {
  long long minimum = LLONG_MAX;
  for (int rows = static_cast<int>(ceil_div(d.OH, phase)) * phase; rows >= 1; rows -= phase) {
    const long long bands = ceil_div(d.OH, rows), cost = ceil_div(tiles * bands, teams) * (rows + d.K - 1 + 4);
    if (cost < minimum) minimum = cost, tiling->rows = rows, tiling->bands = static_cast<int>(bands);
  }
  return minimum;
}

// `phase`: rows of outputs that are completed together. Tiles stay whole as long as every team has one. Only the tiles
// left over are cut into bands, if that is faster than cutting all.
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

// Which outputs of a row of pixels exist: place p is the output row p rows up. At an image's first rows of pixels the
// last places are left out, at its last rows the first ones.
template <int kFirst_, int kLast_>
struct Places {
  static constexpr int kFirst = kFirst_, kLast = kLast_, kCount = kLast - kFirst + 1;
};

// Computes the filters' scales, then calls split(0) to split(units - 1), which store the weights where wgmma reads
// them. Called by kThreads threads, which synchronise at `barrier`. unscale[m] undoes filter m's scale; *fallback:
// whether some weight is unsplittable. The weights are copied to `staged`, in shared memory, and split from there, so
// that threads wait for global memory once.
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

// Calls then(0) to then(kCount - 1), with Numbers.
template <int... kNumbers, typename Then>
__device__ __forceinline__ void each(std::integer_sequence<int, kNumbers...>, Then then) {
  (then(Number<kNumbers>()), ...);
}
template <int kCount, typename Then>
__device__ __forceinline__ void each(Then then) {
  each(std::make_integer_sequence<int, kCount>(), then);
}

// threadIdx.x, read again each time: values derived from it are computed again rather than kept in local memory.
__device__ __forceinline__ uint32_t thread_anew() {
  uint32_t thread;
  asm volatile("mov.u32 %0, %%tid.x;" : "=r"(thread));
  return thread;
}

// Where a task's columns begin.
struct Task {
  int image, column;  // image and column of the first column
  int h0, rows;       // output rows: the first one and their number; a band's last rows may be below the image
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

// A row of pixels as it is staged: from every image the task's columns, and the K - 1 after them.
//
//   columns    |  27 28 | 0 1 2 ... 28 | 0 1 ...          of images i, i + 1, i + 2
//   staged   |  27 28 .. 32 | 0 1 2 ... 32 | 0 1 ...
struct Column {
  int image, at;  // image, counted from the task's first; position in the row
  __device__ Column(const Tiling& tiling, const Dims& d, const Task& task, int position) {
    const int first = d.W - task.column;  // columns of the first image
    const bool in_first = position < first;
    image = in_first ? 0 : divide(position - first, tiling.inverse_W) + 1;
    at = in_first ? task.column + position : position - first - (image - 1) * d.W;
  }
};
struct OutputColumn {
  int image, column, position;  // image, from the task's first on; output column; its first staged pixel
  __device__ OutputColumn(const Tiling& tiling, const Dims& d, const Task& task, int index) {
    const int at = task.column + index;
    image = static_cast<int>(tiling.by_columns.divide(at));
    column = at - image * d.OW;
    position = index + image * (d.K - 1);
  }
};

// Recomputes the outputs of a task that depend on an unsplittable value, or all of them, by the float32 fallback.
// Called by 128 threads, which synchronise at `barrier`.
// `inline` and not `static`: with a name that depends on the file's path, ptxas spills in the kernels that call it.
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
      room.list[atomicAdd(&room.listed, 1)] = thread;  // in any order: outputs are independent
    together();
    fallback_outputs(d, source, k, y + 1LL * task.image * d.M * plane, room.offsets, room.corners, room.list,
                     room.listed, 0, filters, thread, 128);
  }
  together();
}

}  // namespace column_major
}  // namespace fops
