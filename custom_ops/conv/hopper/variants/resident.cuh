// Code shared by any_shape_resident.cu and image_bands_resident.cu: small batches, all operands resident in shared
// memory.
#pragma once

#include "conv/hopper/fallback.cuh"
#include "conv/hopper/pipeline.cuh"
#include "conv/hopper/variants/any_shape/staging.cuh"
#include "conv/hopper/variants/resident_weights.cuh"

namespace fops {
namespace hopper {

// Warps 0 to 7 pack weights, 8 to 15 split pixels, the last four compute addresses; then the first warps multiply.
constexpr int kPixelThreads = 256, kPlanners = 128, kAllThreads = kPackers + kPixelThreads + kPlanners;

struct ResidentShared {  // of fixed size; followed by tiles of weights, pixels, and raw weights
  uint4 table[2 * kMaxResidentSteps + kUnitsBehind];
  float unscale[kTileRows];  // factor that undoes a filter's scale; 0 where the filter has none
  ImageScale image;
  int offsets[128], corners[128];  // per position: offset in y for filter 0, or -1; offset in x
  int list[128], listed, all;      // positions that need the fallback, their number; whether all positions do
};

// Splits all chunks of a block's pixels, with kPixelThreads threads. Returns whether a pixel is unsplittable.
template <typename X>
__device__ __forceinline__ bool stage_all(const Dims& d, const Plan& plan, const X* image, int first, uint4* to,
                                          ImageScale* scale) {
  constexpr int kRows = 2;  // rows of eight values per thread at a time
  const int thread = threadIdx.x - kPackers, pixels = d.H * d.W, rows = plan.chunks.slots() * plan.staged;
  const int low = plan.chunks.per_chunk * plan.staged;  // distance from high halves to low halves
  const ImageSample<X> sample(image, d.C * pixels);     // in flight with the first pixels
  Seen seen;
  ImageScale by = {};
#pragma unroll 1
  for (int begin = thread; begin - thread % 32 < rows; begin += kRows * kPixelThreads) {  // whole warps
    float v[kRows][8];
    int chunk[kRows];
#pragma unroll
    for (int n = 0; n < kRows; ++n) {
      const int row = min(begin + n * kPixelThreads, rows - 1), s = divide(row, plan.inverse_staged);
      const int at = min(first + row - s * plan.staged, pixels - 1), channel = plan.chunks.slot(s).channel;
      const X* from = image + channel * pixels + at;
      chunk[n] = s / plan.chunks.per_chunk;
      if (s < plan.chunks.full && channel + 8 <= d.C) {
#pragma unroll
        for (int e = 0; e < 8; ++e) v[n][e] = static_cast<float>(__ldg(from + e * pixels));
      } else {
        // Values past an end are multiplied by zero weights or belong to positions that are not stored.
        const int channels = s < plan.chunks.full ? 8 : plan.chunks.narrow, shift = __ffs(channels) - 1;
#pragma unroll
        for (int e = 0; e < 8; ++e)
          v[n][e] = static_cast<float>(
              __ldg(from + min(e & (channels - 1), d.C - 1 - channel) * pixels + min(e >> shift, pixels - 1 - at)));
      }
    }
    __syncwarp();
    if (by.scale == 0.0f) by = sample.scale(plan.threshold);
#pragma unroll
    for (int n = 0; n < kRows; ++n) {
      const int row = begin + n * kPixelThreads;  // a chunk's low halves follow it
      if (row < rows) seen.split_row(v[n], by, to + chunk[n] * low + row, to + (chunk[n] + 1) * low + row);
    }
  }
  if (thread == 0) *scale = by;
  return seen.needs_fallback;
}

// Splits a block's tile of filters, from `k`, into `tiles`, and its kPositions positions from `first` on into `pixels`.
// Returns, in all threads, whether any value is unsplittable.
template <typename Layout, int kPositions, typename X>
__device__ __forceinline__ bool prepare(const Dims& d, const Plan& plan, const Steps& steps, const Divisor& by_width,
                                        const X* image, const float* k, int filters, int first, int warp,
                                        uint8_t* tiles, uint4* pixels, ResidentShared& shared) {
  float* const raw = reinterpret_cast<float*>(pixels + plan.chunk_count * 2 * plan.chunks.per_chunk * plan.staged);
  bool needs_fallback = false;
  if (warp < kPackers / 32) {
    const ResidentWeights<Layout> own(d, raw, filters);
    own.fetch(k);
    bool fits;
    const float scale = own.choose_scale(plan.threshold, shared.unscale, &fits);
    needs_fallback = !fits;
    __syncwarp();
    named_barrier(kResidentTable, kPackers + kPlanners);  // the table is ready
    own.split(shared.table, plan.steps, scale, tiles);
  } else if (warp < (kPackers + kPixelThreads) / 32) {
    needs_fallback = stage_all(d, plan, image, first, pixels, &shared.image);
  } else {
    const int thread = threadIdx.x - kPackers - kPixelThreads;
    for (int unit = thread; unit < 2 * plan.steps + kUnitsBehind; unit += kPlanners)
      shared.table[unit] = resident_weights_at(d, plan, steps, unit);
    __syncwarp();
    named_arrive(kResidentTable, kPackers + kPlanners);  // packers only arrive; nothing waits for them here
    if (thread < kPositions) {
      const int position = first + thread, h = static_cast<int>(by_width.divide(position)), w = position - h * d.W;
      shared.offsets[thread] = h < d.OH && w < d.OW ? h * d.OW + w : -1;
      shared.corners[thread] = position;
    }
  }
  bulk_fence();
  return __syncthreads_or(needs_fallback);
}

// Recomputes the outputs that depend on an unsplittable value, or all of them, with the consumer threads.
template <int kThreads, typename X>
__device__ __noinline__ void fallback_block(const Dims& d, ResidentShared& shared, const X* image, const float* k,
                                            float* y, int m0, int filters, int columns) {
  const int thread = threadIdx.x;
  if (thread == 0) shared.listed = shared.all = 0;
  __syncwarp();
  named_barrier(kResidentFallback, kThreads);
  if (thread < min(filters, d.M - m0) && shared.unscale[thread] == 0.0f) shared.all = 1;
  __syncwarp();
  named_barrier(kResidentFallback, kThreads);
  if (thread < columns && shared.offsets[thread] >= 0 &&
      (shared.all || any_unsplittable(d, image, shared.corners[thread], shared.image)))
    shared.list[atomicAdd(&shared.listed, 1)] = thread;  // in any order: outputs are independent
  __syncwarp();
  named_barrier(kResidentFallback, kThreads);
  fallback_outputs(d, image, k, y, shared.offsets, shared.corners, shared.list, shared.listed, m0, filters, thread,
                kThreads);
}

// The plan of blocks with the given positions and filters each, and their shared memory; false if they do not fit or
// outnumber the SMs. `usual`: the chunks and steps of a large batch.
inline bool plan_resident(const fops_conv& c, const Plan& usual, int positions, int filters, int step_bytes,
                         int sms, Plan* plan, size_t* shared) {
  const int64_t below = c.K - 1, last = (out_h(c) - 1) * c.W + out_w(c), staged = positions + below * c.W + below;
  *plan = usual;
  plan->staged = static_cast<int>(ceil_div(staged, 8) * 8);
  if (plan->steps > kMaxResidentSteps || plan->chunks.slots() * int64_t{plan->staged} >= 1 << 16 ||  // see `divide`
      // See also `fits` in choose.cpp.
      plan->chunks.per_chunk * plan->staged > 0x3fff)
    return false;
  plan->inverse_staged = inverse_of(static_cast<uint32_t>(plan->staged));
  plan->spans = static_cast<uint32_t>(ceil_div(last, positions));
  plan->blocks = static_cast<int>(ceil_div(c.M, filters));
  const size_t entries = static_cast<size_t>(plan->chunk_count) * 2 * plan->chunks.per_chunk * plan->staged;
  *shared = plan->steps * step_bytes + 16 * entries + resident_raw_bytes(static_cast<int>(c.C * c.K * c.K), filters);
  return *shared <= 227 * 1024 - sizeof(ResidentShared) - 1024 && int64_t{plan->spans} * plan->blocks * c.B <= sms;
}

}  // namespace hopper
}  // namespace fops
