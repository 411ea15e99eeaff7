// For image_bands_resident.cu: splitting pixels and weights, the fallback, and the plan.
#pragma once

#include "conv/hopper/fallback.cuh"
#include "conv/hopper/pipeline.cuh"
#include "conv/hopper/variants/any_shape/staging.cuh"
#include "conv/hopper/variants/resident_weights.cuh"

namespace fops::hopper {

// Warps 0 to 7 split weights, warps 8 to 15 split pixels, and the last four compute addresses. Then the first warps
// multiply.
constexpr int kPixelThreads = 256, kPlanners = 128, kAllThreads = kPackers + kPixelThreads + kPlanners;

struct ResidentShared {  // static shared memory; weights, pixels and original weights are in dynamic shared memory
  uint4 table[2 * kMaxResidentSteps + kUnitsBehind];  // see resident_weights.cuh
  float unscale[kTileRows];  // factor that undoes a filter's scale; 0 if a weight of the filter is unsplittable
  ImageScale image;
  int offsets[128], corners[128];  // per position: offset in y of filter 0's output, or -1; offset in x of the window
  int list[128], listed, all;      // positions that need the fallback; their number; whether all positions need it
};

// Splits a block's pixels; kPixelThreads threads call this. *scale receives the image's scale. Returns whether one of
// this thread's pixels is unsplittable.
__device__ __forceinline__ bool stage_all(const Dims& d, const Plan& plan, const float* image, int first, uint4* to,
                                          ImageScale* scale) {
  constexpr int kRows = 2;  // entries of eight values per thread at a time
  const int thread = threadIdx.x - kPackers, pixels = d.H * d.W, rows = plan.chunks.slots() * plan.staged;
  const ImageSample<float> sample(image, d.C * pixels);  // its loads overlap with those of the first pixels
  Seen seen;
  ImageScale by = {};
#pragma unroll 1
  for (int begin = thread; begin - thread % 32 < rows; begin += kRows * kPixelThreads) {  // the same for a whole warp
    float v[kRows][8];
#pragma unroll
    for (int n = 0; n < kRows; ++n) {
      const int row = min(begin + n * kPixelThreads, rows - 1), s = divide(row, plan.inverse_staged);
      const int at = min(first + row - s * plan.staged, pixels - 1), channel = plan.chunks.slot(s).channel;
      const float* from = image + channel * pixels + at;
      if (s < plan.chunks.full && channel + 8 <= d.C) {
#pragma unroll
        for (int e = 0; e < 8; ++e) v[n][e] = __ldg(from + e * pixels);
      } else {
        // Values past the last channel or pixel are multiplied by zero weights, or affect only positions that are not
        // stored.
        const int channels = s < plan.chunks.full ? 8 : plan.chunks.narrow, shift = __ffs(channels) - 1;
#pragma unroll
        for (int e = 0; e < 8; ++e)
          v[n][e] =
              __ldg(from + min(e & (channels - 1), d.C - 1 - channel) * pixels + min(e >> shift, pixels - 1 - at));
      }
    }
    __syncwarp();
    if (by.scale == 0.0f) by = sample.scale(plan.threshold);
#pragma unroll
    for (int n = 0; n < kRows; ++n) {
      const int row = begin + n * kPixelThreads;  // the low parts follow the high parts
      if (row < rows) seen.split_row(v[n], by, to + row, to + rows + row);
    }
  }
  if (thread == 0) *scale = by;
  return seen.needs_fallback;
}

// Splits the weights into `tiles`, and the pixels of a block's kPositions positions, from `first` on, into `pixels`. All threads call this. Returns, in all threads, whether a value is unsplittable.
template <typename Layout, int kPositions>
__device__ __forceinline__ bool prepare(const Dims& d, const Plan& plan, const Steps& steps, const Divisor& by_width,
                                        const float* image, const float* k, int first, int warp, uint8_t* tiles,
                                        uint4* pixels, ResidentShared& shared) {
  float* const raw = reinterpret_cast<float*>(pixels + 2 * plan.chunks.slots() * plan.staged);
  bool needs_fallback = false;
  if (warp < kPackers / 32) {
    const ResidentWeights<Layout> own(d, raw, d.M);
    own.fetch(k);
    bool fits;
    const float scale = own.choose_scale(plan.threshold, shared.unscale, &fits);
    needs_fallback = !fits;
    __syncwarp();
    named_barrier(kResidentTable, kPackers + kPlanners);  // waits until the table is complete
    own.split(shared.table, plan.steps, scale, tiles);
  } else if (warp < (kPackers + kPixelThreads) / 32) {
    needs_fallback = stage_all(d, plan, image, first, pixels, &shared.image);
  } else {
    const int thread = threadIdx.x - kPackers - kPixelThreads;
    for (int unit = thread; unit < 2 * plan.steps + kUnitsBehind; unit += kPlanners)
      shared.table[unit] = resident_weights_at(d, plan, steps, unit);
    __syncwarp();
    named_arrive(kResidentTable, kPackers + kPlanners);  // only arrives: these threads need not wait
    if (thread < kPositions) {
      const int position = first + thread, h = static_cast<int>(by_width.divide(position)), w = position - h * d.W;
      shared.offsets[thread] = h < d.OH && w < d.OW ? h * d.OW + w : -1;
      shared.corners[thread] = position;
    }
  }
  bulk_fence();
  return __syncthreads_or(needs_fallback);
}

// Recomputes the outputs that depend on an unsplittable value, or all if a weight is unsplittable. The kThreads threads
// that multiplied call this.
template <int kThreads>
__device__ __noinline__ void fallback_block(const Dims& d, ResidentShared& shared, const float* image, const float* k,
                                            float* y, int filters, int columns) {
  const int thread = threadIdx.x;
  if (thread == 0) shared.listed = shared.all = 0;
  __syncwarp();
  named_barrier(kResidentFallback, kThreads);
  if (thread < d.M && shared.unscale[thread] == 0.0f) shared.all = 1;
  __syncwarp();
  named_barrier(kResidentFallback, kThreads);
  if (thread < columns && shared.offsets[thread] >= 0 &&
      (shared.all || any_unsplittable(d, image, shared.corners[thread], shared.image)))
    shared.list[atomicAdd(&shared.listed, 1)] = thread;  // the order does not matter: outputs are independent
  __syncwarp();
  named_barrier(kResidentFallback, kThreads);
  fallback_outputs(d, image, k, y, shared.offsets, shared.corners, shared.list, shared.listed, 0, filters, thread,
                   kThreads);
}

// Sets the plan's remaining fields, and *shared, the bytes of shared memory, for blocks of `positions` positions and
// `filters` filters. Returns false if a block does not fit into shared memory, or if there are more blocks than SMs.
inline bool plan_resident(const fops_conv& c, int positions, int filters, int step_bytes, int sms, Plan* plan,
                          size_t* shared) {
  const int64_t below = c.K - 1, last = (out_h(c) - 1) * c.W + out_w(c), staged = positions + below * c.W + below;
  plan->staged = static_cast<int>(ceil_div(staged, 8) * 8);
  if (plan->steps > kMaxResidentSteps || plan->chunks.slots() * int64_t{plan->staged} >= 1 << 16 ||  // see `divide`
      plan->chunks.slots() * plan->staged > 0x3fff)
    return false;
  plan->inverse_staged = inverse_of(static_cast<uint32_t>(plan->staged));
  plan->spans = static_cast<uint32_t>(ceil_div(last, positions));
  const size_t entries = size_t{2} * plan->chunks.slots() * plan->staged;
  *shared = plan->steps * step_bytes + 16 * entries + resident_raw_bytes(static_cast<int>(c.C * c.K * c.K), filters);
  return *shared <= 227 * 1024 - sizeof(ResidentShared) - 1024 && int64_t{plan->spans} * c.B <= sms;
}

}  // namespace fops::hopper
