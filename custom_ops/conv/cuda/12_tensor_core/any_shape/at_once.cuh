// Any shape on Hopper, small batches: what at_once.cu and at_once_bands.cu share.
#pragma once

#include "conv/cuda/12_tensor_core/any_shape/own_weights.cuh"
#include "conv/cuda/12_tensor_core/any_shape/staging.cuh"
#include "conv/cuda/12_tensor_core/plain.cuh"

namespace fops {
namespace any_shape {

// Warps 0 to 7 pack weights, 8 to 15 split pixels, the last four work out where things are; the first ones multiply.
constexpr int kPixelThreads = 256, kPlanners = 128, kAllThreads = kPackers + kPixelThreads + kPlanners;
constexpr int kPlainBarrier = 1, kPlansBarrier = 2;

struct AtOnce {                    // of fixed size; behind it tiles of weights, pixels, and raw weights
  uint4 table[2 * kOwnSteps + kUnitsBehind];
  float unscale[kTileRows];        // undoes a filter's scale; 0 where it has none
  ImageScale image;
  int offsets[128], corners[128];  // of a position: where in y, filters aside, or -1; and in x
  int list[128], listed, plain;    // positions on the plain road; whether all are
};

// Splits a block's pixels, all chunks of them, by kPixelThreads threads. Returns whether one has no good split.
template <typename X>
__device__ __forceinline__ bool stage_all(const Dims& d, const Plan& plan, const X* image, int first, uint4* to,
                                          ImageScale* scale) {
  constexpr int kRows = 2;  // of eight values, a thread's at a time
  const int thread = threadIdx.x - kPackers, pixels = d.H * d.W, rows = plan.chunks.slots() * plan.staged;
  const int low = plan.chunks.a_chunk * plan.staged;  // from high halves to low ones
  const ImageSample<X> sample(image, d.C * pixels);   // on its way with the first pixels
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
      chunk[n] = s / plan.chunks.a_chunk;
      if (s < plan.chunks.full && channel + 8 <= d.C) {
#pragma unroll
        for (int e = 0; e < 8; ++e) v[n][e] = static_cast<float>(__ldg(from + e * pixels));
      } else {
        // What lies past an end meets zero weights, or positions that are not stored.
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
      const int row = begin + n * kPixelThreads;  // a chunk has its low halves behind it
      if (row < rows) seen.split_row(v[n], by, to + chunk[n] * low + row, to + (chunk[n] + 1) * low + row);
    }
  }
  if (thread == 0) *scale = by;
  return seen.beyond;
}

// A block's tile of filters, which `k` has, into `tiles`, and its kPositions positions from `first` on into `pixels`.
// Returns, in all threads, whether any value has no good split.
template <typename Layout, int kPositions, typename X>
__device__ __forceinline__ bool prepare(const Dims& d, const Plan& plan, const Steps& steps, const Divisor& by_width,
                                        const X* image, const float* k, int filters, int first, int warp,
                                        uint8_t* tiles, uint4* pixels, AtOnce& shared) {
  float* const raw = reinterpret_cast<float*>(pixels + plan.chunk_count * 2 * plan.chunks.a_chunk * plan.staged);
  bool beyond = false;
  if (warp < kPackers / 32) {
    const OwnWeights<Layout> own(d, raw, filters);
    own.fetch(k);
    bool fits;
    const float scale = own.choose_scale(plan.threshold, shared.unscale, &fits);
    beyond = !fits;
    __syncwarp();
    named_barrier(kPlansBarrier, kPackers + kPlanners);  // the table is there
    own.split(shared.table, plan.steps, scale, tiles);
  } else if (warp < (kPackers + kPixelThreads) / 32) {
    beyond = stage_all(d, plan, image, first, pixels, &shared.image);
  } else {
    const int thread = threadIdx.x - kPackers - kPixelThreads;
    for (int unit = thread; unit < 2 * plan.steps + kUnitsBehind; unit += kPlanners)
      shared.table[unit] = own_weights_at(d, plan, steps, unit);
    __syncwarp();
    named_arrive(kPlansBarrier, kPackers + kPlanners);  // nobody waits for packers here
    if (thread < kPositions) {
      const int position = first + thread, h = static_cast<int>(by_width.divide(position)), w = position - h * d.W;
      shared.offsets[thread] = h < d.OH && w < d.OW ? h * d.OW + w : -1;
      shared.corners[thread] = position;
    }
  }
  bulk_fence();
  return __syncthreads_or(beyond);
}

// The outputs that a value without a good split enters, or all of them, by the threads that multiply.
template <int kThreads, typename X>
__device__ __noinline__ void plain_again(const Dims& d, AtOnce& shared, const X* image, const float* k, float* y,
                                         int m0, int filters, int columns) {
  const int thread = threadIdx.x;
  if (thread == 0) shared.listed = shared.plain = 0;
  __syncwarp();
  named_barrier(kPlainBarrier, kThreads);
  if (thread < min(filters, d.M - m0) && shared.unscale[thread] == 0.0f) shared.plain = 1;
  __syncwarp();
  named_barrier(kPlainBarrier, kThreads);
  if (thread < columns && shared.offsets[thread] >= 0 &&
      (shared.plain || any_beyond(d, image, shared.corners[thread], shared.image)))
    shared.list[atomicAdd(&shared.listed, 1)] = thread;  // in any order: each is by itself
  __syncwarp();
  named_barrier(kPlainBarrier, kThreads);
  plain_outputs(d, image, k, y, shared.offsets, shared.corners, shared.list, shared.listed, m0, filters, thread,
                kThreads);
}

// The plan of blocks with so many positions and filters each, and their shared memory; false where they do not fit, or
// are more than there are multiprocessors. `usual`: the chunks and steps of a large batch.
inline bool plan_at_once(const fops_conv& c, const Plan& usual, int positions, int filters, int step_bytes,
                         int multiprocessors, Plan* plan, size_t* shared) {
  const int64_t below = c.K - 1, last = (out_h(c) - 1) * c.W + out_w(c), staged = positions + below * c.W + below;
  *plan = usual;
  plan->staged = static_cast<int>(ceil_div(staged, 8) * 8);
  if (plan->steps > kOwnSteps || plan->chunks.slots() * int64_t{plan->staged} >= 1 << 16 ||  // see `divide`
      plan->chunks.a_chunk * plan->staged > 0x3fff)                                          // and `fits` in choice.cuh
    return false;
  plan->inverse_staged = inverse_of(static_cast<uint32_t>(plan->staged));
  plan->spans = static_cast<uint32_t>(ceil_div(last, positions));
  plan->blocks = static_cast<int>(ceil_div(c.M, filters));
  const size_t entries = static_cast<size_t>(plan->chunk_count) * 2 * plan->chunks.a_chunk * plan->staged;
  *shared = plan->steps * step_bytes + 16 * entries + own_raw_bytes(static_cast<int>(c.C * c.K * c.K), filters);
  return *shared <= 227 * 1024 - sizeof(AtOnce) - 1024 && int64_t{plan->spans} * plan->blocks * c.B <= multiprocessors;
}

}  // namespace any_shape
}  // namespace fops
