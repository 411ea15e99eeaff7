// For register_weights.cu: the tiling, the shared state, and the work of the warps that do not multiply.
#pragma once

#include "conv/hopper/fallback.cuh"
#include "conv/hopper/pipeline.cuh"
#include "conv/hopper/split.cuh"
#include "conv/hopper/variants/any_shape/staging.cuh"

namespace fops::register_weights {

constexpr int kFilters = 64;  // filters per block: the rows of a wgmma
constexpr int kGroups = 2;    // consumer warpgroups
// Numbers of warps that split pixels, and of warps that store outputs (two per consumer warpgroup).
constexpr int kProducerWarps = 4, kStoreWarps = 4;
constexpr int kThreads = 128 * kGroups + 32 * (kProducerWarps + kStoreWarps);
constexpr int kConsumerRegisters = 208, kProducerRegisters = 48;  // registers per thread; together they fill an SM's
constexpr int kMaxSteps = 11, kMaxRows = 16;  // maximum steps of wgmma; maximum rows of pixels in shared memory
constexpr int kTasks = 4;                     // number of tasks whose scales are kept
constexpr int kMinColumns = 33;               // minimum output width

// Floats from one filter's outputs in shared memory to the next: a multiple of 32 plus 8 or 24, to avoid bank
// conflicts.
__host__ __device__ constexpr int outgoing_stride(int columns) { return columns % 16 ? columns : columns + 8; }

// A band is some output rows of an image. Shared memory has a circular buffer of rows of pixels, [row][high, low]
// [channel][column], with 16 bytes per column: its pixel and the next seven to the right. A step's second unit may be a
// row below its first unit, so the buffer's first row is repeated after its last.
struct Tiling {
  unsigned whole;    // number of images that are one task each; of the other images each band is a task
  int rows, bands;   // output rows of a band; bands of an image
  int row_stages;    // number of rows of pixels in the circular buffer
  int tiles, width;  // per row of outputs: number of tiles; columns of all tiles
  unsigned tasks;
  Divisor by_bands;
  uint32_t
      places[kMaxSteps];  // per step: entries from an output row's first entry to the first unit | entries from there
                          // to the second unit << 16
  bool pairs;             // whether a lane can store two neighbouring outputs with 8 bytes
  float threshold;        // minimum scaled magnitude of a nonzero value: see ImageScale

  __host__ __device__ int low(int C) const { return C * width; }  // entries from a row's high parts to its low parts
  __host__ __device__ int row_entries(int C) const { return 2 * C * width; }
  // Returns a consumer warpgroup's first tile in a row. The warpgroups take tiles in turn, through all rows of a band.
  __device__ int first_tile(int group, int row) const { return (group + row * tiles) % kGroups; }
};

struct Task {
  long long image;
  int h0, rows;  // the first output row, and the number of rows
  __device__ Task(const Tiling& tiling, const Dims& d, unsigned at) : image(at), h0(0), rows(d.OH) {
    if (at < tiling.whole) return;
    at -= tiling.whole;
    const unsigned behind = tiling.by_bands.divide(at);
    image = tiling.whole + behind;
    h0 = static_cast<int>(at - behind * tiling.bands) * tiling.rows;
    rows = min(tiling.rows, d.OH - h0);
  }
};

struct Shared {
  uint64_t full[kMaxRows], empty[kMaxRows];        // mbarriers: a row of pixels may be read; may be overwritten
  uint64_t full_out[kGroups], empty_out[kGroups];  // the same for a warpgroup's tile of outputs
  // The next two fields are for the latest kTasks tasks. These are enough: rows of pixels are staged at most 2 K rows
  // ahead, and a task has at least K rows.
  ImageScale scales[kTasks][kProducerWarps];       // each producer warp computes the scale
  uint32_t needs_fallback[kTasks];                 // the task's number, from 1, if it has an unsplittable value
  uint32_t largest[kFilters], smallest[kFilters];  // of a filter's weights: bits of the largest magnitude; nonzero_bits
  float unscale[kFilters];                         // factor that undoes a filter's scale
  uint32_t weights_need_fallback;                  // whether a weight is unsplittable
};

// The work of each of four producer warps: splits every fourth row of pixels. A lane loads two neighbouring pixels, and
// gets the seven pixels to the right of each from other lanes, so that 28 of 32 lanes have columns to store.
__device__ __forceinline__ void stage_pixels(const Dims& d, const Tiling& tiling, Shared& shared, int warp,
                                             const float* __restrict__ x, uint4* staged) {
  constexpr int kColumns = 56, kBatch = 6;  // columns per turn of a warp; number of turns whose loads are in flight
  constexpr unsigned kAll = 0xffffffffu;
  const int lane = threadIdx.x % 32, pixels = d.H * d.W, low = tiling.low(d.C), row_entries = tiling.row_entries(d.C);
  const int turns_per_row = (tiling.width + kColumns - 1) / kColumns, turns = d.C * turns_per_row;
  // Whether this lane stores its second entry first, which avoids bank conflicts with other lanes.
  const int second_first = lane >> 2 & 1;
  int slot = warp, row = warp;  // this warp's next row of pixels: its stage, and its row in the task
  uint32_t phase = 1;
  unsigned round = 0;
  for (unsigned at = blockIdx.x; at < tiling.tasks; at += gridDim.x, ++round) {
    const Task task(tiling, d, at);
    const float* image = x + task.image * d.C * pixels;
    ImageScale* scale_at = &shared.scales[round % kTasks][warp];
    hopper::choose_scale(image, d.C * pixels, tiling.threshold, scale_at);
    __syncwarp();
    const ImageScale by = *scale_at;
    const int rows = task.rows + d.K - 1;
    for (; row < rows; row += kProducerWarps) {
      uint32_t smallest = ~0u, largest = 0;
      const float* from = image + (task.h0 + row) * d.W;
#pragma unroll 1
      for (int first = 0; first < turns; first += kBatch) {
        float v[kBatch][2];
        int channel = first / turns_per_row, turn = first - channel * turns_per_row;
        int entry = channel * tiling.width + turn * kColumns + 2 * lane;
#pragma unroll
        for (int n = 0, c = channel, u = turn; n < kBatch; ++n) {
          const int column = u * kColumns + 2 * lane;
          const float* source = from + c * pixels;
          const bool real = first + n < turns;
          // Pixels past the row's end are multiplied by zero weights.
          v[n][0] = real && column < d.W ? __ldg(source + column) : 0.0f;
          v[n][1] = real && column + 1 < d.W ? __ldg(source + column + 1) : 0.0f;
          if (++u == turns_per_row) u = 0, ++c;
        }
        if (first == 0) barrier_wait(&shared.empty[slot], phase);
        SplitPair own[kBatch];
#pragma unroll
        for (int n = 0; n < kBatch; ++n) {
          own[n] = split_pair(v[n][0] * by.scale, v[n][1] * by.scale);
          largest = __vmaxu2(largest, own[n].hi & 0x7fff7fffu);
          smallest = min(smallest, min(nonzero_bits(v[n][0]), nonzero_bits(v[n][1])));
        }
        if (hopper::not_finite(largest))  // such values become zero: an infinity times a zero weight would be NaN
#pragma unroll
          for (int n = 0; n < kBatch; ++n) hopper::drop_not_finite(own[n].hi, own[n].lo);
        __syncwarp();
        uint4* to = staged + slot * row_entries;
#pragma unroll
        for (int n = 0; n < kBatch; ++n) {
          const bool real = lane < kColumns / 2 && turn * kColumns + 2 * lane < tiling.width && first + n < turns;
          const auto store = [&](uint32_t words, uint4* entries) {
            uint32_t even[5];
            even[0] = words;
#pragma unroll
            for (int i = 1; i < 5; ++i) even[i] = __shfl_down_sync(kAll, words, i);
            uint32_t one[4], other[4];
#pragma unroll
            for (int i = 0; i < 4; ++i) {
              const uint32_t odd = __byte_perm(even[i], even[i + 1], 0x5432);
              one[i] = second_first ? odd : even[i];
              other[i] = second_first ? even[i] : odd;
            }
            if (real) {
              entries[second_first] = make_uint4(one[0], one[1], one[2], one[3]);
              entries[1 - second_first] = make_uint4(other[0], other[1], other[2], other[3]);
              if (slot == 0) {
                entries[tiling.row_stages * row_entries + second_first] = make_uint4(one[0], one[1], one[2], one[3]);
                entries[tiling.row_stages * row_entries + 1 - second_first] =
                    make_uint4(other[0], other[1], other[2], other[3]);
              }
            }
          };
          store(own[n].hi, to + entry);
          store(own[n].lo, to + entry + low);
          entry += kColumns;
          if (++turn == turns_per_row) turn = 0, entry += tiling.width - turns_per_row * kColumns;
        }
      }
      if (hopper::not_finite(largest) || smallest < nonzero_bits(by.minimum))
        shared.needs_fallback[round % kTasks] = round + 1;
      bulk_fence();
      barrier_arrive(&shared.full[slot]);
      if ((slot += kProducerWarps) >= tiling.row_stages) slot -= tiling.row_stages, phase ^= 1;
    }
    row -= rows;
  }
}

// The work of each of the two warps that store a consumer warpgroup's outputs, for half of the filters each.
// `outgoing`: the warpgroup's buffer for outputs.
template <int kColumns>
__device__ __forceinline__ void store_outputs(const Dims& d, const Tiling& tiling, Shared& shared, int group, int half,
                                              const float* outgoing, float* __restrict__ y) {
  constexpr int kStride = outgoing_stride(kColumns), kOnce = 4;  // filters whose outputs are in flight together
  constexpr int kPairs = (kColumns / 2 + 31) / 32, kSingles = (kColumns + 31) / 32;  // per lane and row
  const int lane = threadIdx.x % 32, plane = d.OH * d.OW, m0 = blockIdx.y * kFilters + half * kFilters / 2;
  const int filters = min(kFilters / 2, d.M - m0);
  uint32_t phase = 0;
  for (unsigned at = blockIdx.x; at < tiling.tasks; at += gridDim.x) {
    const Task task(tiling, d, at);
    for (int row = 0; row < task.rows; ++row) {
      float* const out = y + (task.image * d.M + m0) * plane + (task.h0 + row) * d.OW;
      for (int tile = tiling.first_tile(group, row); tile < tiling.tiles; tile += kGroups, phase ^= 1) {
        barrier_wait(&shared.full_out[group], phase);
        const float* from = outgoing + half * kFilters / 2 * kStride;
        const int left = min(kColumns, d.OW - tile * kColumns);
        float* to = out + tile * kColumns;
#pragma unroll 1
        for (int begin = 0; begin < filters; begin += kOnce, from += kOnce * kStride, to += kOnce * plane) {
          const int some = filters - begin;
          if (tiling.pairs) {
            float2 v[kOnce][kPairs];
#pragma unroll
            for (int i = 0; i < kOnce; ++i)
#pragma unroll
              for (int n = 0; n < kPairs; ++n)
                if (2 * (lane + 32 * n) < kColumns)
                  v[i][n] = *reinterpret_cast<const float2*>(from + i * kStride + 2 * (lane + 32 * n));
#pragma unroll
            for (int n = 0; n < kPairs; ++n) {
              const int column = 2 * (lane + 32 * n), of_lane = column < left ? some : 0;
#pragma unroll
              for (int i = 0; i < kOnce; ++i)
                if (i < of_lane) *reinterpret_cast<float2*>(to + i * plane + column) = v[i][n];
            }
          } else {
            float v[kOnce][kSingles];
#pragma unroll
            for (int i = 0; i < kOnce; ++i)
#pragma unroll
              for (int n = 0; n < kSingles; ++n)
                if (lane + 32 * n < kColumns) v[i][n] = from[i * kStride + lane + 32 * n];
#pragma unroll
            for (int n = 0; n < kSingles; ++n) {
              const int column = lane + 32 * n, of_lane = column < left ? some : 0;
#pragma unroll
              for (int i = 0; i < kOnce; ++i)
                if (i < of_lane) to[i * plane + column] = v[i][n];
            }
          }
        }
        barrier_arrive(&shared.empty_out[group]);
      }
    }
  }
}

// Recomputes the outputs of a warpgroup's tiles that depend on an unsplittable value, or if `all` all of them, by the
// float32 fallback. It is not in an anonymous namespace: with a name that depends on the file's path, ptxas spills in
// the kernels.
template <int kColumns>
__device__ __noinline__ void fallback_task(const Dims& d, const Tiling& tiling, bool all, const Task& task, int group,
                                           const ImageScale& by, const float* x, const float* k, float* y,
                                           FallbackScratch& room) {
  const int thread = threadIdx.x % 128;
  const float* source = x + task.image * d.C * d.H * d.W;
  const auto together = [&] { named_barrier(kRegisterWeightsFallback + group, 128); };
  together();
  if (thread == 0) room.found.count = 0;
  together();
  if (!all) find_unsplittable(d, source, by, task.h0 * d.W, (task.rows + d.K - 1) * d.W, &room.found, thread, 128);
  for (int row = 0; row < task.rows; ++row)
    for (int tile = tiling.first_tile(group, row); tile < tiling.tiles; tile += kGroups) {
      together();
      if (thread == 0) room.listed = 0;
      together();
      const int h = task.h0 + row, column = tile * kColumns + thread, corner = h * d.W + column;
      room.offsets[thread] = h * d.OW + column, room.corners[thread] = corner;
      if (thread < kColumns && column < d.OW && (all || room.found.enters(d, source, corner, by)))
        room.list[atomicAdd(&room.listed, 1)] = thread;  // the order does not matter: outputs are independent
      together();
      fallback_outputs(d, source, k, y + task.image * d.M * d.OH * d.OW, room.offsets, room.corners, room.list,
                       room.listed, blockIdx.y * kFilters, kFilters, thread, 128);
    }
  together();
}

}  // namespace fops::register_weights
