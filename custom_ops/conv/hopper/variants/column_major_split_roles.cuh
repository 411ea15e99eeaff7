// column_major_split.cu: the warps that do not multiply. They choose scales, stage pixels and store outputs.
#pragma once

#include "conv/hopper/pipeline.cuh"
#include "conv/hopper/variants/any_shape/staging.cuh"
#include "conv/hopper/variants/column_major_split.cuh"

namespace fops {
namespace column_major_split {

// The scales of a task's images, a task ahead of the pixels. By a warp.
template <typename Form>
__device__ __forceinline__ void choose_scales(const Dims& d, const Tiling& tiling, Shared<Form>& shared,
                                              const float* __restrict__ x) {
  const int floats = d.C * d.H * d.W;
  for (unsigned round = 0, at = blockIdx.x; at < tiling.tasks; ++round, at += gridDim.x) {
    const Task task(tiling, d, at);
    if (round > 0) barrier_wait(&shared.staging, (round - 1) & 1);
    for (int i = 0; i < task.images(d); ++i)
      hopper::choose_scale(x + (task.image + i) * 1LL * floats, floats, tiling.threshold,
                              shared.scales[round % kScales] + i);
    barrier_arrive(&shared.chosen);
  }
}

// Stages every second row of pixels, from row `first_row` on: a chunk is [row][high, low][position][word]. A thread has
// a column of them, whose next row is in flight while this one is split.
template <typename Form>
__device__ __forceinline__ void stage_pixels(const Dims& d, const Tiling& tiling, Shared<Form>& shared, int first_row,
                                             const float* __restrict__ x, uint32_t* pixel_stages) {
  constexpr int kWords = Form::kWords, kChannels = 2 * kWords;
  const int thread = threadIdx.x % 128, plane = d.H * d.W, row_words = 2 * tiling.positions * kWords;
  const bool used = thread < tiling.positions;
  PipelineState state;
  uint32_t number = 0;  // of the chunk
  for (unsigned round = 0, at = blockIdx.x; at < tiling.tasks; ++round, at += gridDim.x) {
    const Task task(tiling, d, at);
    const int input_rows = task.rows + Form::K - 1;
    const int images = task.images(d), last_row = min(input_rows, d.H - task.h0) - 1;
    const Column column(tiling, d, task, min(thread, tiling.positions - 1));  // or more lines would be read
    const int image = min(column.image, images - 1);                          // of columns behind the last
    const float* from = x + (task.image + image) * 1LL * d.C * plane + task.h0 * d.W + min(column.at, d.W - 1);
    // What lies below the last row meets outputs that are not stored, and is the last row again.
    const auto row_from = [&](int row) { return from + min(row, last_row) * d.W; };
    float v[kChannels];
    const auto load = [&](const float* row, int c) { v[c] = __ldg(row + min(c, static_cast<int>(d.C) - 1) * plane); };
#pragma unroll
    for (int c = 0; c < kChannels; ++c) load(row_from(first_row), c);
    barrier_wait(&shared.chosen, round & 1);
    const ImageScale by = shared.scales[round % kScales][image];
    barrier_arrive(&shared.staging);
    const uint32_t minimum = nonzero_bits(by.minimum);
#pragma unroll 1
    for (int chunk = 0; chunk < input_rows; chunk += Form::kRows) {
      barrier_wait(&shared.empty[state.stage], state.phase ^ 1);
      ++number;
      uint32_t* to = pixel_stages + state.stage * tiling.chunk + first_row * row_words + thread * kWords;
      bool needs_fallback = false;
#pragma unroll 1
      for (int row = chunk + first_row; row < min(chunk + Form::kRows, input_rows); row += 2, to += 2 * row_words) {
        const float* next = row_from(row + 2);
        uint32_t hi[kWords], lo[kWords], smallest = ~0u;
        __half2 zero = {};  // or NaN, where a high half is not finite
#pragma unroll
        for (int w = 0; w < kWords; ++w) {
          const SplitPair parts = split_pair(v[2 * w] * by.scale, v[2 * w + 1] * by.scale);
          hi[w] = parts.hi, lo[w] = parts.lo;
          zero = __hfma2(reinterpret_cast<const __half2&>(hi[w]), __half2{}, zero);
          smallest = min(smallest, min(nonzero_bits(v[2 * w]), nonzero_bits(v[2 * w + 1])));
          load(next, 2 * w), load(next, 2 * w + 1);
        }
        // An infinity would reach outputs whose weight there is zero. Those that have the pixel under their filter are
        // computed otherwise, so it may be zero in all channels.
        const bool infinite = bits(zero) << 1 != 0;
#pragma unroll
        for (int w = 0; w < kWords; ++w)
          if (infinite) hi[w] = lo[w] = 0;
        if (used)
#pragma unroll
          for (int w = 0; w < kWords; w += 2) {
            *reinterpret_cast<uint2*>(to + w) = make_uint2(hi[w], hi[w + 1]);
            *reinterpret_cast<uint2*>(to + row_words / 2 + w) = make_uint2(lo[w], lo[w + 1]);
          }
        needs_fallback |= infinite || smallest < minimum;
      }
      if (needs_fallback && used) shared.needs_fallback[state.stage] = number;
      barrier_arrive(&shared.full[state.stage]);
      state.next(kBuffers);
    }
  }
}

// Adds the two sums of each output, undoes the scales, and stores: `outgoing` is [row][high, low][filter][column]. A
// warp has kEach filters; a lane's two columns are 32 apart.
template <typename Form>
__device__ __forceinline__ void store_outputs(const Dims& d, const Tiling& tiling, Shared<Form>& shared,
                                              const float* outgoing, float* y) {
  constexpr int kEach = Form::kEach;
  const int lane = threadIdx.x % 32, warp = __shfl_sync(0xffffffffu, threadIdx.x / 32 % 4, 0), plane = d.OH * d.OW;
  const int filters = min(kEach, static_cast<int>(d.M) - warp * kEach);  // at times none, or fewer
  PipelineState state;
  float unscale[kEach];
  for (unsigned round = 0, at = blockIdx.x; at < tiling.tasks; ++round, at += gridDim.x) {
    const Task task(tiling, d, at);
    const int last_image = task.images(d) - 1, rows = d.OH - task.h0;  // that there are, from the band's first on
    float *to[2], image_unscale[2];
    int count[2];
    barrier_wait(&shared.full_out[state.stage], state.phase);  // behind it the scales are known
    if (round == 0)
#pragma unroll
      for (int m = 0; m < kEach; ++m) unscale[m] = shared.unscale[warp * kEach + m];
#pragma unroll
    for (int n = 0; n < 2; ++n) {
      const OutputColumn output(tiling, d, task, lane + 32 * n);
      to[n] = y + (1LL * (task.image + output.image) * d.M + warp * kEach) * plane + task.h0 * d.OW + output.column;
      count[n] = output.image <= last_image ? filters : 0;
      image_unscale[n] = 1.0f / shared.scales[round % kScales][min(output.image, last_image)].scale;
    }
#pragma unroll 1
    for (int row = 0; row < task.rows; ++row) {
      barrier_wait(&shared.full_out[state.stage], state.phase);
      const float* from = outgoing + state.stage * 2 * Form::kOutputs + warp * kEach * kStride + lane;
      float v[2][kEach];
#pragma unroll
      for (int n = 0; n < 2; ++n)
#pragma unroll
        for (int m = 0; m < kEach; ++m) v[n][m] = from[m * kStride + 32 * n];
#pragma unroll
      for (int n = 0; n < 2; ++n)
#pragma unroll
        for (int m = 0; m < kEach; ++m) v[n][m] += from[Form::kOutputs + m * kStride + 32 * n] * (1.0f / kLowScale);
      if (row < rows)
#pragma unroll
        for (int n = 0; n < 2; ++n)
#pragma unroll
          for (int m = 0; m < kEach; ++m)
            if (m < count[n]) to[n][m * plane] = v[n][m] * unscale[m] * image_unscale[n];
      to[0] += d.OW, to[1] += d.OW;
      barrier_arrive(&shared.empty_out[state.stage]);
      state.next(kOutgoing);
    }
  }
}

}  // namespace column_major_split
}  // namespace fops
