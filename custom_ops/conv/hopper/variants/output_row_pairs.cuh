// For output_row_pairs.cu: the tiling, and staging of pixels and weights.
#pragma once

#include "conv/hopper/pipeline.cuh"
#include "conv/hopper/variants/image_bands.cuh"

namespace fops::output_row_pairs {

using image_bands::Band;

// Three consumer warpgroups multiply and store one tile after another; a producer warpgroup stages the next bands.
constexpr int kConsumerGroups = 3, kProducerThreads = 128, kThreads = 128 * kConsumerGroups + kProducerThreads;
constexpr int kConsumerRegisters = 136,
              kProducerRegisters = 104;  // registers per thread; 128 x (3 x 136 + 104) fill an SM
constexpr int kBuffers = 2;              // buffers for bands
static_assert(kConsumerGroups < kRowPairsWeights, "the consumers' own barriers come before");
constexpr int kTile = 64;           // positions that a warpgroup computes at a time: a wgmma's rows
constexpr int kStride = kTile + 4;  // floats from one filter's outputs to the next; 4 shift the banks

// The form of a layer. kFull: number of slots of eight channels. kPair: whether there is one more slot, of up to four
// channels of a pixel and of its right neighbour. kRows: output rows per position.
template <int K_, int kFull_, bool kPair_, int kFilters_, int kRows_>
struct Form {
  static constexpr int K = K_, kFull = kFull_, kFilters = kFilters_, kRows = kRows_;
  static constexpr bool kPair = kPair_;
  static constexpr int kSlots = kFull + kPair, kChannels = 8 * kFull + 4 * kPair;
  static constexpr int kUnits = kFull * K + kPair * ((K + 1) / 2);  // units per row of a filter
  static constexpr int kSteps = (kUnits + 1) / 2;                   // steps of wgmma
  static constexpr int kColumns = kRows * kFilters;
  static constexpr int kStored = (K + 2 * (kRows - 1)) * kFilters;  // columns of weights, with zeros at both ends
  static constexpr int kWeights = kSteps * 4 * kStored;             // entries of 16 bytes

  // A unit's slot, and its column of the filter (in the last slot the first of two). A surplus unit repeats the last
  // one.
  static constexpr __host__ __device__ int slot(int unit) { return unit < kFull * K ? unit / K : kFull; }
  static constexpr __host__ __device__ int column(int unit) {
    return unit < kFull * K ? unit % K : 2 * ((unit < kUnits ? unit : kUnits - 1) - kFull * K);
  }
  // Returns the first step with the same slots as `step` whose units are both the same number of columns to the left. A
  // lane computes the addresses of `step` from those of that step, and needs no registers for them.
  static constexpr __host__ __device__ int like(int step) {
    int other = 0;
    while (slot(2 * other) != slot(2 * step) || slot(2 * other + 1) != slot(2 * step + 1) ||
           column(2 * step) - column(2 * other) != column(2 * step + 1) - column(2 * other + 1))
      ++other;
    return other;
  }
};

struct Tiling {
  int rows;                            // output rows per band
  int bands;                           // bands per image
  int pad;                             // unused entries after each group of rows of pixels
  uint32_t inverse_OW, inverse_group;  // for `divide`: inverses of OW, and of the pixels of a group of rows
  Divisor by_bands;
  float threshold;               // minimum scaled magnitude of a nonzero value: see ImageScale
  bool separate_weight_staging;  // whether the original weights have their own space in shared memory

  __host__ __device__ int staged(const Dims& d) const { return (rows + d.K - 1) * d.W; }  // pixels
};

// The layout of a slot: its rows of pixels are in groups of kRows. At the end of an output row, a tile's positions
// continue in the next group. The `pad` unused entries between groups place the next group's first position into the
// banks after those of the last position, so that load_matrices has no bank conflicts.
template <int kRows>
struct Groups {
  int pixels,  // pixels of a group
      of;      // entries from the beginning of a group to the next
  __host__ __device__ Groups(const Dims& d, const Tiling& tiling) : pixels(kRows * d.W), of(pixels + tiling.pad) {}
  static __host__ int pad(const Dims& d) { return (8 - (kRows * d.W - d.OW) % 8) % 8; }
  // Returns the number of entries from one slot to the next. It includes K entries after a band's pixels, up to which a
  // tile's last row may read.
  __host__ __device__ int slot_entries(const Dims& d, const Tiling& tiling) const {
    return (tiling.staged(d) + pixels - 1) / pixels * of + d.K;
  }
  __device__ int entry(int pixel, const Tiling& tiling) const {
    return pixel + divide(pixel, tiling.inverse_group) * tiling.pad;
  }
};

template <int kFilters>
struct Shared {
  uint64_t full[kBuffers], empty[kBuffers];  // mbarriers: a band has been staged; all its tiles have been multiplied
  uint64_t room_is_free;                     // mbarrier: see split_weights
  float image_unscale[kBuffers];             // factor that undoes the scale of the band's image
  uint32_t needs_fallback[kBuffers];         // number (from 1) of the last band with an unsplittable value
  unsigned task[kBuffers];                   // number of the band's task; after the last task, the number of tasks
  unsigned slots[2];                         // for ProducerTiles
  float unscale[kFilters];                   // factors that undo the filters' scales
};

struct Task {
  long long image;
  int h0, rows;  // first output row; number of output rows
  __device__ Task(const Tiling& tiling, const Dims& d, unsigned task) {
    const unsigned i = tiling.by_bands.divide(task);
    image = i, h0 = static_cast<int>(task - i * tiling.bands) * tiling.rows, rows = min(tiling.rows, d.OH - h0);
  }
};

// Splits a band into shared memory: [slot][high, low][pixel]. kSharing threads call this. `left`: number of values of a
// plane from the band's first on. Past these, where outputs are not stored, and past the last channel, where weights
// are zero, the last value is read again, so that there is no branch between loads.
template <typename F, int kSharing>
__device__ __forceinline__ Band stage_band(const Dims& d, const Tiling& tiling, const float* __restrict__ band,
                                           int left, float scale, int thread, uint4* to) {
  const Groups<F::kRows> groups(d, tiling);
  const int plane = d.H * d.W, count = tiling.staged(d), slot_stride = groups.slot_entries(d, tiling);
  Band seen;
  constexpr int kOnce = 4 / F::kSlots, kRows = kOnce * F::kSlots;  // pixels per thread at a time: 32 loads in flight
#pragma unroll 1
  for (int at = thread; at < count; at += kOnce * kSharing) {
    float v[kRows][8], scales[kRows];
#pragma unroll
    for (int n = 0; n < kRows; ++n) {
      const int pixel = min(at + n / F::kSlots * kSharing, left - 1), s = n % F::kSlots;
      const float *here = band + pixel, *next = band + min(pixel + 1, left - 1);
      scales[n] = scale;
#pragma unroll
      for (int e = 0; e < 8; ++e) {
        const bool pair = s == F::kFull;
        v[n][e] = __ldg((pair && e >= 4 ? next : here) + min(8 * s + (pair ? e % 4 : e), d.C - 1) * plane);
      }
    }
#pragma unroll
    for (int n = 0; n < kRows; ++n)
#pragma unroll
      for (int e = 0; e < (n % F::kSlots == F::kFull ? 4 : 8); ++e)
        seen.smallest = min(seen.smallest, nonzero_bits(v[n][e]));
    const image_bands::SplitRows<kRows> split(v, scales);
    seen.infinite |= split.infinite;
#pragma unroll
    for (int n = 0; n < kRows; ++n)
      if (const int pixel = at + n / F::kSlots * kSharing; pixel < count) {
        const int s = n % F::kSlots, entry = groups.entry(pixel, tiling);
        split.store(n, to + 2 * s * slot_stride + entry, to + (2 * s + 1) * slot_stride + entry);
      }
  }
  return seen;
}

// A block's tasks in the producer warps, like PersistentTilesOf (scheduler.cuh). The other warps read Shared::task.
struct ProducerTiles {
  unsigned now, next, claimed;
  int slot = 0;
  __device__ ProducerTiles() : now(blockIdx.x), next(now + gridDim.x), claimed(next + gridDim.x) {}
  __device__ void advance(unsigned* slots, unsigned* tile_counter) {
    if (threadIdx.x % kProducerThreads == 0) {
      slots[slot] = claimed;
      // The counter's value is first needed in the next task, so that the thread need not wait for it now.
      claimed = tile_counter ? 3 * gridDim.x + atomicAdd(tile_counter, 1u) : claimed + gridDim.x;
    }
    named_barrier(kRowPairsProducers, kProducerThreads);
    now = next, next = slots[slot];
    slot ^= 1;  // two slots in turn, because other warps may still read this one
  }
};

// Stages the band of task `at`, the block's band `number` (from 1), in `buffer`. kSharing threads call this.
template <typename F, int kSharing>
__device__ __forceinline__ void stage_task(const Dims& d, const Tiling& tiling, Shared<F::kFilters>& shared,
                                           const float* __restrict__ x, unsigned at, const ImageScale& by, int thread,
                                           uint32_t number, int buffer, uint4* pixel_stages) {
  const Task task(tiling, d, at);
  const int pixels = d.H * d.W, slot_stride = Groups<F::kRows>(d, tiling).slot_entries(d, tiling);
  const Band seen = stage_band<F, kSharing>(d, tiling, x + task.image * d.C * pixels + task.h0 * d.W,
                                            pixels - task.h0 * d.W, by.scale, thread,
                                            pixel_stages + buffer * 2 * F::kSlots * slot_stride);
  if (seen.infinite || seen.smallest < nonzero_bits(by.minimum)) shared.needs_fallback[buffer] = number;
  if (thread == 0) shared.image_unscale[buffer] = 1.0f / by.scale, shared.task[buffer] = at;
}

// Stages the block's first band. All threads call this, because there is no other work yet that could overlap with it.
template <typename F>
__device__ __forceinline__ void stage_first(const Dims& d, const Tiling& tiling, Shared<F::kFilters>& shared,
                                            const float* __restrict__ x, uint4* pixel_stages) {
  const Task task(tiling, d, blockIdx.x);
  const int count = d.C * d.H * d.W;
  const ImageScale by = hopper::scale_of(x + task.image * count, count, tiling.threshold);
  stage_task<F, kThreads>(d, tiling, shared, x, blockIdx.x, by, threadIdx.x, 1, 0, pixel_stages);
}

// The work of the fourth warpgroup: stages one band after another, each with its image's scale.
template <typename F>
__device__ __forceinline__ void stage_bands(const Dims& d, const Tiling& tiling, Shared<F::kFilters>& shared,
                                            const float* __restrict__ x, uint4* pixel_stages, unsigned* tile_counter) {
  const int thread = threadIdx.x % kProducerThreads, lane = thread % 32, warp = thread / 32, pixels = d.H * d.W;
  const unsigned tasks = static_cast<unsigned>(d.B * tiling.bands);
  const Groups<F::kRows> groups(d, tiling);
  const int slot_stride = groups.slot_entries(d, tiling), rows = (slot_stride - d.K) / groups.of;
  // All warps read the image's whole sample, so that they need not wait for one another.
  const auto sample_of = [&](unsigned task) {
    const int count = d.C * pixels;
    return hopper::ImageSample<float>(x + Task(tiling, d, task).image * count, count);
  };
  const auto fetch = [&](unsigned task) {  // prefetches a task's pixels into L2
    const Task its(tiling, d, task);
    const char* from = reinterpret_cast<const char*>(x + its.image * d.C * pixels + its.h0 * d.W);
    const int bytes = min(tiling.staged(d), pixels - its.h0 * d.W) * 4;
    for (int c = warp; c < d.C; c += kProducerThreads / 32)
      for (int i = lane * 128; i < bytes; i += 32 * 128) prefetch_l2(from + 4LL * c * pixels + i);
  };
  ProducerTiles schedule;
  PipelineState state;
  uint32_t number = 0;
  if (!tiling.separate_weight_staging) {  // stage_first has staged the first band
    schedule.advance(shared.slots, tile_counter);
    number = 1;
    if (schedule.now < tasks) fetch(schedule.now);
    barrier_wait(&shared.room_is_free, 0);
  }
  // Sets entries to zero that a tile reads between two groups of rows and after the last group: they are multiplied by
  // zero weights, and must not be NaN.
  for (int i = thread; i < kBuffers * 2 * F::kSlots * rows; i += kProducerThreads) {
    uint4* behind = pixel_stages + i / rows * slot_stride + i % rows * groups.of + groups.pixels;
    for (int n = 0; n < tiling.pad + (i % rows == rows - 1 ? d.K : 0); ++n) behind[n] = make_uint4(0, 0, 0, 0);
  }
  if (!tiling.separate_weight_staging) {
    barrier_arrive(&shared.full[0]);
    state.next(kBuffers);
  }
  auto sample = sample_of(min(schedule.now, tasks - 1));
#pragma unroll 1
  for (; schedule.now < tasks; schedule.advance(shared.slots, tile_counter)) {
    const ImageScale by = sample.scale(tiling.threshold);
    ++number;
    if (schedule.next < tasks) {  // starts loads for the next band while this one is staged
      sample = sample_of(schedule.next);
      fetch(schedule.next);
    }
    barrier_wait(&shared.empty[state.stage], state.phase ^ 1);
    stage_task<F, kProducerThreads>(d, tiling, shared, x, schedule.now, by, thread, number, state.stage, pixel_stages);
    barrier_arrive(&shared.full[state.stage]);
    state.next(kBuffers);
  }
  barrier_wait(&shared.empty[state.stage], state.phase ^ 1);
  if (thread == 0) shared.task[state.stage] = tasks;
  barrier_arrive(&shared.full[state.stage]);
}

// Floats from one filter's original weights in shared memory to the next: odd, so that filters are in different banks.
__host__ __device__ inline int room_stride(int taps) { return taps | 1; }

// Splits the weights into shared memory: [step][half of the depth][high, low][column][8 halves]. Columns are [row of
// the filters, the last one first][filter], with zeros before and after. The weights are first copied to `room`,
// because each is read several times. unscale[m] receives the factor that undoes filter m's scale. Returns whether a
// weight is unsplittable. The consumer threads call this. Meanwhile the producers stage bands, unless `room` is part of
// the bands' buffers: then they wait for the mbarrier room_is_free.
template <typename F>
__device__ bool split_weights(const Dims& d, float threshold, const float* __restrict__ k, float* room,
                              uint64_t* room_is_free, uint4* weights, float* unscale) {
  constexpr int kAll = 128 * kConsumerGroups, kWarps = kAll / 32, K = F::K;
  const int taps = d.C * K * K, stride = room_stride(taps);
  static_assert(F::kFilters % kWarps == 0, "");
  const bool needs_fallback = hopper::filter_scales<kWarps, F::kFilters / kWarps, 10>(
      d, taps, threshold, k, unscale, [&](int m, int i, float v) { room[m * stride + i] = v; });
  named_barrier(kRowPairsWeights, kAll);
#pragma unroll 2
  for (int i = threadIdx.x; i < 2 * F::kSteps * F::kStored; i += kAll) {
    const int unit = i / F::kStored, column = i % F::kStored;
    const int m = column % F::kFilters, p = K + F::kRows - 2 - column / F::kFilters, slot = F::slot(unit);
    const float scale = 1.0f / unscale[m];
    const bool real = unit < F::kUnits && p >= 0 && p < K, pair = slot == F::kFull;
    float v[8];
#pragma unroll
    for (int e = 0; e < 8; ++e) {
      const int c = 8 * slot + (pair ? e % 4 : e), q = F::column(unit) + (pair ? e / 4 : 0);
      v[e] = real && c < d.C && q < K ? room[m * stride + (c * K + p) * K + q] * scale : 0.0f;
    }
    uint32_t hi[4], lo[4];
#pragma unroll
    for (int e = 0; e < 4; ++e) {
      const SplitPair parts = split_pair(v[2 * e], v[2 * e + 1]);
      hi[e] = parts.hi, lo[e] = parts.lo;
    }
    uint4* to = weights + 2 * unit * F::kStored + column;
    to[0] = make_uint4(hi[0], hi[1], hi[2], hi[3]);
    to[F::kStored] = make_uint4(lo[0], lo[1], lo[2], lo[3]);
  }
  bulk_fence();
  __syncwarp();
  if (threadIdx.x % 32 == 0) barrier_arrive(room_is_free);
  return named_barrier_or(kRowPairsWeights, kAll, needs_fallback);
}

}  // namespace fops::output_row_pairs
