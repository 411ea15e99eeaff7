// What walks.cu and apart.cu have in common: tasks of 64 columns of outputs, and the order in which weights are split.
#pragma once

#include <algorithm>
#include <climits>
#include <utility>  // integer_sequence

#include "conv/cuda/12_tensor_core/any_shape/pack.cuh"
#include "conv/cuda/12_tensor_core/plain.cuh"
#include "gpu/divide.cuh"
#include "gpu/isa/bulk_copy.cuh"
#include "gpu/isa/wgmma.cuh"
#include "gpu/largest.cuh"

namespace fops {
namespace walks {

constexpr int kWalks = 64;            // of a task: the rows of a wgmma
constexpr int kStagers = 96;          // threads that stage a row of pixels, a column each
constexpr int kLeastColumns = 8;      // of outputs; so walks side by side come from kMostImages at most
constexpr int kMostImages = 9;
constexpr int kStride = kWalks + 4;   // floats between two filters' outputs on their way: 4 banks

struct Tiling {
  unsigned whole;    // tiles that are a task each, the first ones; the others are cut into bands, a task each
  int bands, rows;   // bands that another tile is cut into, and their output rows: a multiple of a phase's
  int positions;     // staged of a row of pixels, an even number
  int chunk;         // words of one
  unsigned tasks;    // of tiles of 64 columns of outputs, of all images side by side
  bool pairs;        // whether two neighbouring outputs are 8 aligned bytes of one image
  Divisor by_columns, by_bands;
  uint32_t inverse_W;
  float threshold;   // least scaled magnitude that has a good split: see ImageScale
};

// Whether a row of pixels of 64 walks has a thread for each of its columns.
inline bool fits_stagers(const fops_conv& c) {
  return out_w(c) >= kLeastColumns && c.H <= 4096 && c.W <= 4096 && c.H * c.W <= 1 << 20 &&
         kWalks + (ceil_div(kWalks - 1, out_w(c)) + 1) * (c.K - 1) <= kStagers;
}

// The bands of `tiles` tiles. They make more tasks, but each has K - 1 rows of pixels more, and takes a few rows' time
// to begin. Returns how long they take, in rows of pixels. `teams`: that have a task each at a time.
inline long long cut_into_bands(const Dims& d, long long tiles, int phase, long long teams, Tiling* tiling) {
  long long least = LLONG_MAX;
  for (int rows = static_cast<int>(ceil_div(d.OH, phase)) * phase; rows >= 1; rows -= phase) {
    const long long bands = ceil_div(d.OH, rows), cost = ceil_div(tiles * bands, teams) * (rows + d.K - 1 + 4);
    if (cost < least) least = cost, tiling->rows = rows, tiling->bands = static_cast<int>(bands);
  }
  return least;
}

// `phase`: rows of outputs that are completed together. Tiles stay whole as long as every team has one, and only those
// that are left over are cut into bands, where that is faster than bands of all.
inline Tiling cut_into_walks(const Dims& d, int phase, long long teams) {
  Tiling tiling = {};
  tiling.by_columns = Divisor(static_cast<uint32_t>(d.OW));
  tiling.inverse_W = inverse_of(static_cast<uint32_t>(d.W));
  tiling.threshold = least_scaled(static_cast<float>(d.C * d.K * d.K));
  const long long images = std::min<long long>(ceil_div(kWalks - 1, d.OW) + 1, d.B);
  tiling.positions = static_cast<int>(kWalks + images * (d.K - 1));
  const long long tiles = ceil_div(d.B * d.OW, kWalks), rounds = tiles / teams, rest = tiles - rounds * teams;
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

// Which of a row of pixels' outputs there are: place p is the output row p rows up. At an image's first rows of pixels
// the last places are left out, at its last rows the first ones.
template <int kFirst_, int kLast_>
struct Places {
  static constexpr int kFirst = kFirst_, kLast = kLast_, kCount = kLast - kFirst + 1;
};

// The filters' scales, and then split(0) to split(units - 1), which store the weights where wgmma reads them. By
// kThreads threads, who meet at `barrier`. unscale[m] undoes filter m's scale; *plain: whether a weight has no good
// split. The weights are left in `staged`, shared memory, and split from there: so threads wait for global memory once.
template <int kThreads, int kFilters, typename Split>
__device__ __forceinline__ void split_filters(const Dims& d, float threshold, const float* __restrict__ k,
                                              float* staged, int barrier, int units, float* unscale, uint32_t* plain,
                                              Split split) {
  constexpr int kWarps = kThreads / 32, kEach = kFilters / kWarps;
  static_assert(kFilters % kWarps == 0, "");
  const int taps = d.C * d.K * d.K;
  const bool beyond = any_shape::filter_scales<kWarps, kEach, 7>(
      d, taps, threshold, k, unscale, [&](int m, int i, float weight) { staged[m * taps + i] = weight; });
  if (threadIdx.x == 0) *plain = 0;
  named_barrier(barrier, kThreads);
  if (beyond) *plain = 1;
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

// threadIdx.x, read anew each time: what follows from it is worked out again, and not kept in local memory.
__device__ __forceinline__ uint32_t thread_anew() {
  uint32_t thread;
  asm volatile("mov.u32 %0, %%tid.x;" : "=r"(thread));
  return thread;
}

// Where a task's walks begin.
struct Task {
  int image, column;  // of the first walk
  int h0, rows;       // of outputs: the first one, and how many; a band's last ones may lie below the image
  __device__ Task(const Tiling& tiling, const Dims& d, unsigned task) {
    unsigned tile = task;
    if (task < tiling.whole) {
      h0 = 0, rows = d.OH;
    } else {
      const unsigned band = task - tiling.whole, behind = tiling.by_bands.divide(band);
      tile = tiling.whole + behind, h0 = static_cast<int>(band - behind * tiling.bands) * tiling.rows;
      rows = tiling.rows;
    }
    const unsigned first = tile * kWalks;
    image = static_cast<int>(tiling.by_columns.divide(first));
    column = static_cast<int>(first) - image * d.OW;
  }
  __device__ int images(const Dims& d) const {
    return static_cast<int>(min(static_cast<long long>((column + kWalks - 1) / d.OW + 1), d.B - image));
  }
};

// A row of pixels as it is staged: of every image the walks' columns, and the K - 1 behind them.
//
//   walks    |  27 28 | 0 1 2 ... 28 | 0 1 ...          of images i, i + 1, i + 2
//   staged   |  27 28 .. 32 | 0 1 2 ... 32 | 0 1 ...
struct Column {
  int image, at;  // behind the task's first image, and in the row
  __device__ Column(const Tiling& tiling, const Dims& d, const Task& task, int position) {
    const int first = d.W - task.column;  // of the first image
    const bool in_first = position < first;
    image = in_first ? 0 : divide(position - first, tiling.inverse_W) + 1;
    at = in_first ? task.column + position : position - first - (image - 1) * d.W;
  }
};
struct Walk {
  int image, column, position;  // behind the task's first image, and in the outputs; where its first pixel is staged
  __device__ Walk(const Tiling& tiling, const Dims& d, const Task& task, int walk) {
    const int at = task.column + walk;
    image = static_cast<int>(tiling.by_columns.divide(at));
    column = at - image * d.OW;
    position = walk + image * (d.K - 1);
  }
};

// The outputs of a task that a value without a good split enters, or all of them: in plain float32. By 128 threads, who
// meet at `barrier`.
static __device__ __noinline__ void plain_task(const Dims& d, const Tiling& tiling, int barrier, bool all, unsigned at,
                                               const ImageScale* scales, const float* x, const float* k, float* y,
                                               int filters, PlainRoom& room) {
  const int pixels = d.H * d.W, plane = d.OH * d.OW, thread = threadIdx.x % 128;
  const Task task(tiling, d, at);
  const float* source = x + 1LL * task.image * d.C * pixels;
  const Walk walk(tiling, d, task, thread % kWalks);
  const int rows = min(task.rows, d.OH - task.h0), images = Walk(tiling, d, task, kWalks - 1).image + 1;
  const auto together = [&] { named_barrier(barrier, 128); };
  together();
  if (thread == 0) room.found.count = 0;
  together();
  for (int n = 0; n < images && task.image + n < d.B && !all; ++n)
    find_beyond(d, source, scales[n], n * d.C * pixels + task.h0 * d.W, (rows + d.K - 1) * d.W, &room.found, thread,
                128);
  for (int row = 0; row < rows; row += 2) {
    together();
    if (thread == 0) room.listed = 0;
    together();
    const int h = row + thread / kWalks, corner = walk.image * d.C * pixels + (task.h0 + h) * d.W + walk.column;
    room.offsets[thread] = walk.image * d.M * plane + (task.h0 + h) * d.OW + walk.column;
    room.corners[thread] = corner;
    if (h < rows && task.image + walk.image < d.B &&
        (all || room.found.enters(d, source, corner, scales[walk.image])))
      room.list[atomicAdd(&room.listed, 1)] = thread;  // in any order: each is by itself
    together();
    plain_outputs(d, source, k, y + 1LL * task.image * d.M * plane, room.offsets, room.corners, room.list, room.listed,
                  0, filters, thread, 128);
  }
  together();
}

}  // namespace walks
}  // namespace fops
