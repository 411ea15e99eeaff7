// walks.cu: what the warps that do not multiply do: three of a team stage pixels, one stores outputs.
#pragma once

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
      for (int w = 0; w < kWords; w += 2)
        *reinterpret_cast<uint4*>(to + w) = make_uint4(split[w].x, split[w].y, split[w + 1].x, split[w + 1].y);
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

// Stores a team's outputs, row by row: `outgoing` is [phase][row][filter][walk].
template <typename Form>
__device__ __forceinline__ void store_outputs(const Dims& d, const Tiling& tiling, Shared<Form>& shared, int team,
                                              const float* outgoing, float* y) {
  constexpr int kFilters = Form::kFilters, kOnce = 8;  // filters whose outputs are on their way together
  const int lane = threadIdx.x % 32, plane = d.OH * d.OW;
  Place place;
  for (unsigned at = blockIdx.x * kTeams + team; at < tiling.tasks; at += gridDim.x * kTeams) {
    const Task task(tiling, d, at);
    float* out = y + 1LL * task.image * d.M * plane + task.h0 * d.OW;
    // A lane's two walks: neighbours where 8 bytes are stored together, else 32 apart.
    int to[2];  // behind `out`
    bool real[2];
#pragma unroll
    for (int n = 0; n < 2; ++n) {
      const Walk walk(tiling, d, task, tiling.pairs ? 2 * lane + n : lane + 32 * n);
      real[n] = task.image + walk.image < d.B;
      to[n] = walk.image * d.M * plane + walk.column;
    }
#pragma unroll 1
    for (int row = 0; row < tiling.rows; ++row, out += d.OW) {
      const int in_phase = row % Form::kPhase;
      if (in_phase == 0) barrier_wait(&shared.full_out[team][place.at], place.phase);
      const float* from = outgoing + place.at * Form::kOutputs + in_phase * kFilters * kStride;
      const int filters = task.h0 + row < d.OH ? d.M : 0, of_first = real[0] ? filters : 0;
      const int of_second = real[1] ? filters : 0;
      int first = to[0], second = to[1];
#pragma unroll 1
      for (int begin = 0; begin < kFilters; begin += kOnce) {
        float2 v[kOnce];
        if (tiling.pairs) {
#pragma unroll
          for (int i = 0; i < kOnce; ++i)
            v[i] = *reinterpret_cast<const float2*>(from + (begin + i) * kStride + 2 * lane);
#pragma unroll
          for (int i = 0; i < kOnce; ++i, first += plane)
            if (begin + i < of_first) *reinterpret_cast<float2*>(out + first) = v[i];
        } else {
#pragma unroll
          for (int i = 0; i < kOnce; ++i) {
            const float* of_filter = from + (begin + i) * kStride + lane;
            v[i] = make_float2(of_filter[0], of_filter[32]);
          }
#pragma unroll
          for (int i = 0; i < kOnce; ++i, first += plane, second += plane) {
            if (begin + i < of_first) out[first] = v[i].x;
            if (begin + i < of_second) out[second] = v[i].y;
          }
        }
      }
      if (in_phase == Form::kPhase - 1) {
        barrier_arrive(&shared.empty_out[team][place.at]);
        place.next(Form::kOutgoing);
      }
    }
  }
}

}  // namespace walks
}  // namespace fops
