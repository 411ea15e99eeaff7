// image_bands.cu: the tiling, and a band of an image from global to shared memory.
#pragma once

#include "conv/hopper/fallback.cuh"
#include "conv/hopper/variants/any_shape/staging.cuh"
#include "gpu/isa/bulk_copy.cuh"
#include "gpu/isa/wgmma.cuh"

namespace fops {
namespace image_bands {

using namespace hopper;  // slots, units and steps (plan.h), splitting, the fallback

constexpr int kGroups = 2, kThreads = 128 * kGroups;  // warpgroups and threads per block
constexpr int kTile = 64;                             // positions a warpgroup computes at a time: a wgmma's rows
constexpr int kStride = kTile + 4;                    // floats between two filters' staged outputs: 4 banks

struct Tiling {
  Chunks chunks;                    // all slots in one chunk
  int rows;                         // output rows per band
  int bands;                        // bands per image
  int steps;                        // wgmma steps over all units
  int chain;                        // maximum number of steps that are added up in one sum
  uint32_t places[kMaxSteps];       // see place_of
  uint16_t origins[2 * kMaxSteps];  // see origin_of
  uint32_t inverse_W, inverse_staged;
  Divisor by_bands;
  int piece;        // filters whose raw weights are in the bands' space at a time: all, or 8, 4, 2 or 1
  float threshold;  // smallest scaled magnitude that can be split: see ImageScale

  __host__ __device__ int staged(const Dims& d) const { return (rows + d.K - 1) * d.W; }  // positions
};

// Steps `begin` to `end` of the products of 64 positions. `both` starts from zero: the pixels' high halves times the
// filters' high halves, then their low halves. `small` continues, with the pixels' low halves, `low` entries after the
// high ones. `corner` and `weights`: lower halves of descriptors, whose units, 16 bytes, are an entry and a filter.
template <int kFilters, int kUnroll, int kSmallSums>
__device__ __forceinline__ void multiply(float (&both)[kFilters], float (&small)[kSmallSums], uint32_t corner,
                                         uint32_t low, uint32_t weights, const uint32_t* places, int begin, int end) {
  const auto step = [&](int i, int keep_both, int keep_small) {
    const uint32_t at = corner + places[i], of_weights = weights + i * 4 * kFilters;
    wgmma_ss<2 * kFilters>(both, at, of_weights, keep_both);
    wgmma_ss<2 * kSmallSums>(small, at + low, of_weights, keep_small);
  };
  wgmma_fence();
  step(begin, 0, begin > 0);
#pragma unroll kUnroll
  for (int i = begin + 1; i < end; ++i) step(i, 1, 1);
  wgmma_commit();
}

// Sum i of a lane belongs to filter i / 4 * 8 + 2 t + i % 2, and is still scaled. `total`: the chains' sums of `both`.
// kFew: see image_bands.cu.
template <bool kFew, int kFilters, int kSmallSums>
__device__ __forceinline__ float scaled_sum(const float (&total)[kFilters], const float (&small)[kSmallSums], int i) {
  float v = total[kFilters / 2 + i] + small[i];
  if constexpr (kFew) v += small[kFilters / 2 + i] * (1.0f / kLowScale);
  return total[i] + v * (1.0f / kLowScale);
}

// Properties of a band's values.
struct Band {
  uint32_t smallest = ~0u;  // smallest nonzero magnitude, as nonzero_bits
  bool infinite = false;    // whether a value has no high half
};

// Stages `slots` slots from `channel` on, kChannels each, for `count` positions of a band. All threads share the
// positions of all slots, because a band of one row of 14 is shorter than a warp. `left`: values of a plane from the
// band's first on. Past them, and past the last channel, weights are zero and the last value is read again, so that
// there is no branch between loads. kMany: more than one slot; without it, one division per entry is saved.
template <int kChannels, bool kMany>
__device__ void stage_slots(const Dims& d, const float* band, int left, int channel, int slots, int count,
                            uint32_t inverse_count, float scale, uint4* high_to, uint4* low_to, Band* seen) {
  constexpr int kEntries = 2;  // entries per thread at a time: 16 loads in flight
  const int pixels = d.H * d.W, entries = slots * count;
#pragma unroll 1
  for (int i = threadIdx.x; i < entries; i += kEntries * kThreads) {
    float v[kEntries][8];
#pragma unroll
    for (int n = 0; n < kEntries; ++n) {
      const int entry = kMany ? min(i + n * kThreads, entries - 1) : i + n * kThreads;
      const int s = kMany ? divide(entry, inverse_count) : 0, at = entry - s * count;
      const int first = channel + kChannels * s;
#pragma unroll
      for (int c = 0; c < kChannels; ++c) {
        const float* plane = band + min(first + c, d.C - 1) * pixels;
#pragma unroll
        for (int neighbour = 0; neighbour < 8 / kChannels; ++neighbour)
          v[n][neighbour * kChannels + c] = __ldg(plane + min(at + neighbour, left - 1));
      }
    }
    float scales[kEntries];
#pragma unroll
    for (int n = 0; n < kEntries; ++n) {
      scales[n] = scale;
#pragma unroll
      for (int e = 0; e < 8; ++e) seen->smallest = min(seen->smallest, nonzero_bits(v[n][e]));
    }
    const SplitRows<kEntries> split(v, scales);
    seen->infinite |= split.infinite;
#pragma unroll
    for (int n = 0; n < kEntries; ++n)
      if (const int entry = i + n * kThreads; entry < entries) split.store(n, high_to + entry, low_to + entry);
  }
}

// Stages all slots of a band: [slot][position] high halves, and the low ones `low` entries after them. A band of fewer
// rows than others is staged to the same length.
__device__ inline Band stage_band(const Tiling& tiling, const Dims& d, const float* band, int left, float scale,
                                  uint4* to, int low) {
  Band seen;
  const Chunks& chunks = tiling.chunks;
  const int count = tiling.staged(d);
  const auto stage = [&](auto channels, int first, int slots) {
    constexpr int kChannels = decltype(channels)::value;
    const auto stage_some = [&](auto many) {
      stage_slots<kChannels, decltype(many)::value>(d, band, left, chunks.slot(first).channel, slots, count,
                                                    tiling.inverse_staged, scale, to + first * count,
                                                    to + low + first * count, &seen);
    };
    if (slots > 1) stage_some(std::true_type());
    else stage_some(std::false_type());
  };
  if (chunks.full > 0) stage(std::integral_constant<int, 8>(), 0, chunks.full);
  if (chunks.rest > 0) {
    switch (chunks.narrow) {
      case 4: stage(std::integral_constant<int, 4>(), chunks.full, chunks.rest); break;
      case 2: stage(std::integral_constant<int, 2>(), chunks.full, chunks.rest); break;
      default: stage(std::integral_constant<int, 1>(), chunks.full, chunks.rest);
    }
  }
  return seen;
}

// Splits weights into shared memory: [unit][high, low][filter]. They are read several times, so they are first copied,
// unchanged, to where bands will be: for a single image this step takes longer than everything else. *unscale of
// kFilters filters undoes their scales. Returns whether a weight is unsplittable.
template <int kFilters>
__device__ bool split_weights(const Dims& d, const Tiling& tiling, const float* k, float* room, uint4* weights,
                              float* unscale) {
  const int lane = threadIdx.x % 32, warp = __shfl_sync(0xffffffffu, threadIdx.x / 32, 0);
  const int taps = d.C * d.K * d.K, stride = taps | 1;  // odd, so that filters are in different banks
  bool needs_fallback = false;
#pragma unroll 1
  for (int first = 0; first < kFilters; first += tiling.piece) {
    const int real = min(tiling.piece, d.M - first);
    for (int m = warp; m < real; m += kThreads / 32) {
      const float* from = k + (first + m) * taps;
      const uint32_t to = shared_address(room + m * stride);
#pragma unroll 4
      for (int i = lane; i < taps; i += 32) copy_async_4(to + 4 * i, from + i);
    }
    copy_async_wait_all();
    __syncwarp();  // until the block's barrier only this warp uses its filters
    for (int m = warp; m < tiling.piece; m += kThreads / 32) {
      uint32_t largest = 0, smallest = ~0u;  // twice a magnitude's bits; nonzero_bits
#pragma unroll 4
      for (int i = lane; m < real && i < taps; i += 32) {
        const uint32_t twice = 2 * __float_as_uint(room[m * stride + i]);
        largest = max(largest, twice), smallest = min(smallest, twice - 1);
      }
      // NaN stays NaN: its bits exceed every number's.
      const float maximum = __uint_as_float(warp_max(largest) / 2);
      const bool finite = maximum < kLargestScaled;
      const float scale = finite ? scale_for(maximum) : 1.0f;
      needs_fallback |= !finite || smallest < nonzero_bits(tiling.threshold / scale);
      if (lane == 0) unscale[first + m] = 1.0f / scale;
    }
    __syncthreads();
    const int units = 2 * tiling.steps;
#pragma unroll 2
    for (int i = threadIdx.x; i < units * tiling.piece; i += kThreads) {
      const int unit = tiling.piece == kFilters ? i / kFilters : i >> (__ffs(tiling.piece) - 1);
      const int m = i - unit * tiling.piece, origin = tiling.origins[unit];
      uint4 hi = {}, lo = {};
      if (m < real && origin != kNoUnit) {
        const int channel = origin >> 8, channels = channel < 8 * tiling.chunks.full ? 8 : tiling.chunks.narrow;
        split_unit(room + m * stride, channel, origin >> 4 & 15, origin & 15, channels, d, 1.0f / unscale[first + m],
                   &hi, &lo);
      }
      weights[unit * 2 * kFilters + first + m] = hi;
      weights[unit * 2 * kFilters + kFilters + first + m] = lo;
    }
    if (first + tiling.piece < kFilters) __syncthreads();  // before the next filters are copied there
  }
  return __syncthreads_or(needs_fallback);
}

}  // namespace image_bands
}  // namespace fops
