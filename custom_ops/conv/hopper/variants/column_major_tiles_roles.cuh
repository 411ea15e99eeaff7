// For column_major_tiles.cu: the work of the warps that do not multiply. Each team has three producer warps, which
// stage pixels, and a warp that stores outputs.
#pragma once

#include <type_traits>

#include "conv/hopper/pipeline.cuh"
#include "conv/hopper/split.cuh"
#include "conv/hopper/variants/any_shape/staging.cuh"
#include "conv/hopper/variants/column_major_tiles.cuh"

namespace fops::column_major {

constexpr int kAhead = 6;  // a row of pixels is prefetched into L2 this many rows before it is staged

template <int kWords>
struct Pixel {
  float v[2 * kWords];

  __device__ __forceinline__ void load(const float* from, int plane, int word) {
    v[2 * word] = __ldg(from + 2 * word * plane);
    v[2 * word + 1] = __ldg(from + (2 * word + 1) * plane);
  }
  // Splits each pair of channels into a word of high parts and a word of low parts, and stores them if `used`. Calls
  // then(word) when a pair's registers are free. Returns whether a value is unsplittable.
  template <typename Then>
  __device__ __forceinline__ bool split(const ImageScale& by, uint2* to, bool used, Then then) {
    uint2 split[kWords];
    uint32_t largest = 0, smallest = ~0u;
#pragma unroll
    for (int w = 0; w < kWords; ++w) {
      const SplitPair parts = split_pair(v[2 * w] * by.scale, v[2 * w + 1] * by.scale);
      split[w] = make_uint2(parts.hi, parts.lo);
      largest = __vmaxu2(largest, parts.hi & 0x7fff7fffu);
      smallest = min(smallest, min(nonzero_bits(v[2 * w]), nonzero_bits(v[2 * w + 1])));
      then(w);
    }
    const bool infinite = hopper::not_finite(largest);
    if (infinite)  // such words become zero: an infinity times a zero weight would be NaN
#pragma unroll
      for (int w = 0; w < kWords; ++w)
        if (hopper::not_finite(split[w].x)) split[w] = make_uint2(0, 0);
    if (used)
#pragma unroll
      for (int w = 0; w < kWords; w += 2) {
        const uint32_t two[4] = {split[w].x, split[w].y, split[w + 1].x, split[w + 1].y};
        store_shared(reinterpret_cast<uint32_t*>(to + w), two);
      }
    return infinite || smallest < nonzero_bits(by.minimum);
  }
};

// Stages a team's pixels, chunk by chunk; pixel_stages is [buffer][row of pixels][column][word]. A thread stages one
// column, two rows at a time: the next two rows are in flight while these are split.
template <typename Form>
__device__ __forceinline__ void stage_pixels(const Dims& d, const Tiling& tiling, Shared<Form>& shared, int team,
                                             const float* __restrict__ x, uint2* pixel_stages) {
  constexpr int kWords = Form::kWords, kRows = Form::kRows, kBatch = 2;
  static_assert(kRows % kBatch == 0, "");
  const int plane = d.H * d.W, row_words = tiling.positions * kWords;
  PipelineState state;
  uint32_t number = 0;  // number of the chunk
  for (unsigned round = 0, at = blockIdx.x * kTeams + team; at < tiling.tasks; ++round, at += gridDim.x * kTeams) {
    const Task task(tiling, d, at);
    const uint32_t thread = thread_anew() % 128;
    const int lane = thread % 32;
    const bool used = thread < tiling.positions;
    const int input_rows = task.rows + Form::K - 1, images = task.images(d);
    const int last_row = min(input_rows, d.H - task.h0) - 1;
    const Column column(tiling, d, task, thread);
    const int image = min(column.image, images - 1);  // columns past the last one use the last image
    const float* from = x + (task.image + image) * 1LL * d.C * plane + task.h0 * d.W + min(column.at, d.W - 1);
    // Below the image the last row is read again; such rows affect only outputs that are not stored.
    const auto row_from = [&](int row) { return from + min(row, last_row) * d.W; };
    const auto prefetch = [&](int row) {
      if (lane < d.C) prefetch_l2(row_from(row) + lane * plane);
    };
    Pixel<kWords> pixels[kBatch];
#pragma unroll
    for (int n = 0; n < kBatch; ++n)
#pragma unroll
      for (int w = 0; w < kWords; ++w) pixels[n].load(row_from(n), plane, w);
#pragma unroll 1
    for (int row = kBatch; row < kAhead; ++row) prefetch(row);
    ImageScale* scales = shared.scales[team][round % kScales];
    // keep_register makes the compiler compute the samples' addresses in each task. Otherwise it would keep them across
    // tasks, and spill.
    uint32_t floats = d.C * plane;
    keep_register(floats);
    for (int i = thread / 32; i < images; i += kProducerThreads / 32)
      hopper::choose_scale(x + 1LL * (task.image + i) * floats, static_cast<int>(floats), tiling.threshold, scales + i,
                           thread_anew() % 32);
    named_barrier(kColumnTilesProducers + team, kProducerThreads);
    const ImageScale by = scales[image];
#pragma unroll 1
    for (int row = 0; row < input_rows; row += kBatch) {
      prefetch(row + kAhead), prefetch(row + kAhead + 1);
      if (row % kRows == 0) {
        barrier_wait(&shared.empty[team][state.stage], state.phase ^ 1);
        ++number;
      }
      uint2* to = pixel_stages + state.stage * tiling.chunk + row % kRows * row_words + thread * kWords;
      bool needs_fallback = false;
#pragma unroll
      for (int n = 0; n < kBatch; ++n) {
        const float* next = row_from(row + kBatch + n);
        needs_fallback |=
            pixels[n].split(by, to + n * row_words, used, [&](int word) { pixels[n].load(next, plane, word); });
      }
      if (needs_fallback && used) shared.needs_fallback[team][state.stage] = number;
      if (row % kRows == kRows - kBatch || row + kBatch >= input_rows) {
        barrier_arrive(&shared.full[team][state.stage]);
        state.next(kBuffers);
      }
    }
  }
}

struct Target {
  float* to;       // address for the first filter
  uint32_t bytes;  // distance from one filter to the next
  int filters;     // number of filters; 0 if the lane's column is past the last
};

__device__ __forceinline__ void keep(float& v) { keep_register(v); }
__device__ __forceinline__ void keep(float2& v) { keep_register(v.x), keep_register(v.y); }
// Store a value to global memory. With epilogue.cuh's store_global, which contains an assumption, the consumer warps
// spill.
__device__ __forceinline__ void store_global(uint64_t to, float v) {
  asm volatile("st.global.f32 [%0], %1;" ::"l"(to), "f"(v) : "memory");
}
__device__ __forceinline__ void store_global(uint64_t to, float2 v) {
  asm volatile("st.global.v2.f32 [%0], {%1, %2};" ::"l"(to), "f"(v.x), "f"(v.y) : "memory");
}

// Stores a lane's outputs of a row; `from` is [filter][column]. Eight filters are loaded before the first one is
// stored; the compiler would place each load directly before its store, and wait for it. kAll: whether the target has
// kFilters filters or none, so that a lane need not check each filter. An address is the previous address plus `bytes`,
// which takes two instructions; for to + m * bytes the compiler emits three or four (213 per phase instead of 165).
template <int kFilters, bool kAll, typename Value>
__device__ __forceinline__ void store_row(const float* from, const Target& target) {
  constexpr int kOnce = 8;
  uint64_t to = reinterpret_cast<uint64_t>(target.to);
#pragma unroll
  for (int begin = 0; begin < kFilters; begin += kOnce) {
    Value v[kOnce];
#pragma unroll
    for (int i = 0; i < kOnce; ++i) v[i] = *reinterpret_cast<const Value*>(from + (begin + i) * kStride);
#pragma unroll
    for (int i = 0; i < kOnce; ++i) keep(v[i]);
#pragma unroll
    for (int i = 0; i < kOnce; ++i) {
      if (kAll ? target.filters > 0 : begin + i < target.filters) store_global(to, v[i]);
      asm volatile("add.u64 %0, %0, %1;" : "+l"(to) : "l"(uint64_t{target.bytes}));
    }
  }
}

// Stores a team's outputs, row by row; `outgoing` is [phase][row][filter][column]. kPairs: whether a lane's two columns
// are neighbours, stored by one 8-byte store; otherwise they are 32 columns apart. kAll: whether M is kFilters; otherwise
// it is smaller.
template <typename Form, bool kPairs, bool kAll>
__device__ __forceinline__ void store_outputs(const Dims& d, const Tiling& tiling, Shared<Form>& shared, int team,
                                              const float* x, const float* outgoing, float* y) {
  using Value = std::conditional_t<kPairs, float2, float>;
  constexpr int kFilters = Form::kFilters;
  const int lane = threadIdx.x % 32, plane = d.OH * d.OW, mine = kPairs ? 2 * lane : lane;  // mine: the first column
  PipelineState state;
  // The producers are about 16 rows ahead. The samples for the next task's scales are prefetched into L2 shortly before
  // the producers need them: much earlier, they would be evicted again, and read twice.
  constexpr int kFetch = kBuffers * Form::kRows + 6;
  for (unsigned at = blockIdx.x * kTeams + team; at < tiling.tasks; at += gridDim.x * kTeams) {
    const Task task(tiling, d, at);
    const auto target = [&](int number) {
      const OutputColumn output(tiling, d, task, number);
      return Target{y + 1LL * (task.image + output.image) * d.M * plane + task.h0 * d.OW + output.column,
                    4 * static_cast<uint32_t>(plane), task.image + output.image < d.B ? d.M : 0};
    };
    Target first = target(mine), second = target(kPairs ? mine : mine + 32);
    const int rows = d.OH - task.h0;  // number of the image's output rows from the band's first on
    const int fetch_row = max(0, task.rows - kFetch) / Form::kPhase * Form::kPhase;
#pragma unroll 1
    for (int row = 0; row < task.rows; row += Form::kPhase) {
      if (row == fetch_row && at + gridDim.x * kTeams < tiling.tasks) {
        const Task next(tiling, d, at + gridDim.x * kTeams);
        for (int i = 0; i < next.images(d); ++i)
          hopper::prefetch_sample(x + (next.image + i) * 1LL * d.C * d.H * d.W, d.C * d.H * d.W);
      }
      barrier_wait(&shared.full_out[team][state.stage], state.phase);
      const float* from = outgoing + state.stage * Form::kOutputs + mine;
#pragma unroll
      for (int h = 0; h < Form::kPhase; ++h, from += kFilters * kStride)
        if (row + h < rows) {
          store_row<kFilters, kAll, Value>(from, first);
          if (!kPairs) store_row<kFilters, kAll, Value>(from + 32, second);
          first.to += d.OW, second.to += d.OW;
        }
      barrier_arrive(&shared.empty_out[team][state.stage]);
      state.next(Form::kOutgoing);
    }
  }
}

template <typename Form>
__device__ __forceinline__ void store_outputs(const Dims& d, const Tiling& tiling, Shared<Form>& shared, int team,
                                              const float* x, const float* outgoing, float* y) {
  const bool all = d.M == Form::kFilters;
  if (tiling.pairs && all)
    store_outputs<Form, true, true>(d, tiling, shared, team, x, outgoing, y);
  else if (tiling.pairs)
    store_outputs<Form, true, false>(d, tiling, shared, team, x, outgoing, y);
  else if (all)
    store_outputs<Form, false, true>(d, tiling, shared, team, x, outgoing, y);
  else
    store_outputs<Form, false, false>(d, tiling, shared, team, x, outgoing, y);
}

}  // namespace fops::column_major
