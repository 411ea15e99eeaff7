// walks.cu: what the warps that do not multiply do: three of a team stage pixels, one stores outputs.
#pragma once

#include <type_traits>

#include "conv/cuda/12_tensor_core/any_shape/pack.cuh"
#include "conv/cuda/12_tensor_core/any_shape/staging.cuh"
#include "conv/cuda/12_tensor_core/any_shape/walks.cuh"

namespace fops {
namespace walks {

constexpr int kAhead = 6;  // rows of pixels that are fetched into L2 before they are loaded

// A pixel's channels, in registers.
template <int kWords>
struct Pixel {
  float v[2 * kWords];

  __device__ __forceinline__ void load(const float* from, int plane, int word) {
    v[2 * word] = __ldg(from + 2 * word * plane);
    v[2 * word + 1] = __ldg(from + (2 * word + 1) * plane);
  }
  // Stores a word of high and one of low halves for each pair of channels. `then(word)` comes behind a pair's last use.
  // Returns whether a value has no good split.
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
    const bool infinite = any_shape::not_finite(largest);
    if (infinite)  // it would reach outputs whose weight there is zero
#pragma unroll
      for (int w = 0; w < kWords; ++w)
        if (any_shape::not_finite(split[w].x)) split[w] = make_uint2(0, 0);
    if (used)
#pragma unroll
      for (int w = 0; w < kWords; w += 2) {
        const uint32_t two[4] = {split[w].x, split[w].y, split[w + 1].x, split[w + 1].y};
        store_shared(reinterpret_cast<uint32_t*>(to + w), two);
      }
    return infinite || smallest < nonzero_bits(by.least);
  }
};

// Stages a team's pixels, chunk by chunk: `ring` is [buffer][row of pixels][position][word]. A thread has a column of
// them, and two rows in registers: the next two are on their way while these are split.
template <typename Form>
__device__ __forceinline__ void stage_pixels(const Dims& d, const Tiling& tiling, Shared<Form>& shared, int team,
                                             const float* __restrict__ x, uint2* ring) {
  constexpr int kWords = Form::kWords, kRows = Form::kRows, kBatch = 2;
  static_assert(kRows % kBatch == 0, "");
  const int thread = threadIdx.x % 128, lane = thread % 32, plane = d.H * d.W, row_words = tiling.positions * kWords;
  const int input_rows = tiling.rows + Form::K - 1;
  const bool used = thread < tiling.positions;
  Place place;
  uint32_t number = 0;  // of the chunk
  for (unsigned round = 0, at = blockIdx.x * kTeams + team; at < tiling.tasks; ++round, at += gridDim.x * kTeams) {
    const Task task(tiling, d, at);
    const int images = task.images(d), last_row = min(input_rows, d.H - task.h0) - 1;
    const Column column(tiling, d, task, thread);
    const int image = min(column.image, images - 1);  // of columns behind the last
    const float* from = x + (task.image + image) * 1LL * d.C * plane + task.h0 * d.W + min(column.at, d.W - 1);
    // What lies below the last row meets outputs that are not stored, and is the last row again.
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
    for (int i = thread / 32; i < images; i += kStagers / 32)
      any_shape::choose_scale(x + (task.image + i) * 1LL * d.C * plane, d.C * plane, tiling.threshold, scales + i);
    named_barrier(1 + team, kStagers);
    const ImageScale by = scales[image];
#pragma unroll 1
    for (int row = 0; row < input_rows; row += kBatch) {
      prefetch(row + kAhead), prefetch(row + kAhead + 1);
      if (row % kRows == 0) {
        barrier_wait(&shared.empty[team][place.at], place.phase ^ 1);
        ++number;
      }
      uint2* to = ring + place.at * tiling.chunk + row % kRows * row_words + thread * kWords;
      bool beyond = false;
#pragma unroll
      for (int n = 0; n < kBatch; ++n) {
        const float* next = row_from(row + kBatch + n);
        beyond |= pixels[n].split(by, to + n * row_words, used, [&](int word) { pixels[n].load(next, plane, word); });
      }
      if (beyond && used) shared.beyond[team][place.at] = number;
      if (row % kRows == kRows - kBatch || row + kBatch >= input_rows) {
        barrier_arrive(&shared.full[team][place.at]);
        place.next(tiling.buffers);
      }
    }
  }
}

// Where a lane's outputs of a row go.
struct Target {
  float* to;       // of the first filter
  uint32_t bytes;  // from one filter to the next
  int filters;     // how many: none where the lane's walk is behind the last

  // `bytes` in a register of the lane: where the compiler sees that all lanes have the same an address takes three
  // instructions, not one.
  __device__ __forceinline__ Target(float* to, uint32_t bytes, int filters) : to(to), bytes(bytes), filters(filters) {
    keep_register(this->bytes);
  }
};

__device__ __forceinline__ void keep(float& v) { keep_register(v); }
__device__ __forceinline__ void keep(float2& v) { keep_register(v.x), keep_register(v.y); }

// A lane's outputs of a row: `from` is [filter][walk]. Of eight filters all are loaded before the first is stored; the
// compiler would put each load in front of its store, and wait. kAll: the target has kFilters or none, so that a lane
// asks once and not for each.
template <int kFilters, bool kAll, typename Value>
__device__ __forceinline__ void store_row(const float* from, const Target& target) {
  constexpr int kOnce = 8;
#pragma unroll
  for (int begin = 0; begin < kFilters; begin += kOnce) {
    Value v[kOnce];
#pragma unroll
    for (int i = 0; i < kOnce; ++i) v[i] = *reinterpret_cast<const Value*>(from + (begin + i) * kStride);
#pragma unroll
    for (int i = 0; i < kOnce; ++i) keep(v[i]);
#pragma unroll
    for (int i = 0; i < kOnce; ++i)
      if (kAll ? target.filters > 0 : begin + i < target.filters)
        *reinterpret_cast<Value*>(reinterpret_cast<char*>(target.to) + uint64_t{target.bytes} * (begin + i)) = v[i];
  }
}

// Stores a team's outputs, row by row: `outgoing` is [phase][row][filter][walk]. kPairs: a lane's two walks are
// neighbours whose outputs are 8 aligned bytes; else they are 32 apart. kAll: there are kFilters.
template <typename Form, bool kPairs, bool kAll>
__device__ __forceinline__ void store_outputs(const Dims& d, const Tiling& tiling, Shared<Form>& shared, int team,
                                              const float* outgoing, float* y) {
  using Value = std::conditional_t<kPairs, float2, float>;
  constexpr int kFilters = Form::kFilters;
  const int lane = threadIdx.x % 32, plane = d.OH * d.OW, mine = kPairs ? 2 * lane : lane;  // mine: the first walk
  Place place;
  for (unsigned at = blockIdx.x * kTeams + team; at < tiling.tasks; at += gridDim.x * kTeams) {
    const Task task(tiling, d, at);
    const auto target = [&](int number) {
      const Walk walk(tiling, d, task, number);
      return Target(y + 1LL * (task.image + walk.image) * d.M * plane + task.h0 * d.OW + walk.column, 4 * plane,
                    task.image + walk.image < d.B ? d.M : 0);
    };
    Target first = target(mine), second = target(kPairs ? mine : mine + 32);
    const int rows = d.OH - task.h0;  // that there are, from the band's first on
#pragma unroll 1
    for (int row = 0; row < tiling.rows; row += Form::kPhase) {
      barrier_wait(&shared.full_out[team][place.at], place.phase);
      const float* from = outgoing + place.at * Form::kOutputs + mine;
#pragma unroll
      for (int h = 0; h < Form::kPhase; ++h, from += kFilters * kStride)
        if (row + h < rows) {
          store_row<kFilters, kAll, Value>(from, first);
          if (!kPairs) store_row<kFilters, kAll, Value>(from + 32, second);
          first.to += d.OW, second.to += d.OW;
        }
      barrier_arrive(&shared.empty_out[team][place.at]);
      place.next(Form::kOutgoing);
    }
  }
}

template <typename Form>
__device__ __forceinline__ void store_outputs(const Dims& d, const Tiling& tiling, Shared<Form>& shared, int team,
                                              const float* outgoing, float* y) {
  const bool all = d.M == Form::kFilters;
  if (tiling.pairs && all) store_outputs<Form, true, true>(d, tiling, shared, team, outgoing, y);
  else if (tiling.pairs) store_outputs<Form, true, false>(d, tiling, shared, team, outgoing, y);
  else if (all) store_outputs<Form, false, true>(d, tiling, shared, team, outgoing, y);
  else store_outputs<Form, false, false>(d, tiling, shared, team, outgoing, y);
}

}  // namespace walks
}  // namespace fops
