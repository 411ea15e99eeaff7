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
constexpr int kStride = kTile + 4;                    // floats between two filters' outputs on their way out: 4 banks

struct Tiling {
  Chunks chunks;                    // all slots in one chunk
  int rows;                         // output rows per band
  int bands;                        // bands per image
  int steps;                        // wgmma steps over all units
  int chain;                        // of them that are added up in one sum, at most
  uint32_t places[kMaxSteps];       // of place_of
  uint16_t origins[2 * kMaxSteps];  // of origin_of
  uint32_t inverse_W, inverse_staged;
  Divisor by_bands;
  int piece;        // filters whose weights lie as they are where bands will lie: all, or 8, 4, 2 or 1 at a time
  float threshold;  // smallest scaled magnitude that can be split: see ImageScale

  __host__ __device__ int staged(const Dims& d) const { return (rows + d.K - 1) * d.W; }  // positions
};

// Steps `begin` to `end` of 64 positions' products: `both` starts from zero, with the pixels' high halves times the
// filters' high halves, then their low ones; `small` goes on, with the pixels' low halves, `low` entries behind the
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

// Sum i of a lane: of filter i / 4 * 8 + 2 t + i % 2, still scaled. `total`: the chains' sums of `both`. kFew: see
// image_bands.cu.
template <bool kFew, int kFilters, int kSmallSums>
__device__ __forceinline__ float scaled_sum(const float (&total)[kFilters], const float (&small)[kSmallSums], int i) {
  float v = total[kFilters / 2 + i] + small[i];
  if constexpr (kFew) v += small[kFilters / 2 + i] * (1.0f / kLowScale);
  return total[i] + v * (1.0f / kLowScale);
}

// What was seen of a band's values.
struct Band {
  uint32_t smallest = ~0u;  // magnitude but zero, as nonzero_bits
  bool infinite = false;    // whether one has no high half
};

// `slots` slots from `channel` on, kChannels each, of `count` positions of a band; all threads share all slots'
// positions, for a band of one row of 14 is shorter than a warp. `left`: values of a plane from the band's first on;
// what lies past them, and past the last channel, meets zero weights and is the last value again, so that no branch
// comes between loads. kMany: more slots than one, which spares a division an entry.
template <int kChannels, bool kMany>
__device__ void stage_slots(const Dims& d, const float* band, int left, int channel, int slots, int count,
                            uint32_t inverse_count, float scale, uint4* high_to, uint4* low_to, Band* seen) {
  constexpr int kEntries = 2;  // a thread's at a time: 16 loads in flight
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

// All slots of a band: [slot][position] high halves, and the low ones `low` entries behind them. A band of fewer rows
// than others is staged to their length.
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

// Weights into shared memory, split: [unit][high, low][filter]. They are read several times, so they are copied there
// as they are first, where bands will lie: of a single image this takes longer than all else. *unscale of kFilters
// filters undoes their scales. Returns whether a weight is unsplittable.
template <int kFilters>
__device__ bool split_weights(const Dims& d, const Tiling& tiling, const float* k, float* room, uint4* weights,
                              float* unscale) {
  const int lane = threadIdx.x % 32, warp = __shfl_sync(0xffffffffu, threadIdx.x / 32, 0);
  const int taps = d.C * d.K * d.K, stride = taps | 1;  // odd: other filters, other banks
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
    __syncwarp();  // a warp's filters are its own up to the barrier
    for (int m = warp; m < tiling.piece; m += kThreads / 32) {
      uint32_t largest = 0, smallest = ~0u;  // as nonzero_bits and twice a magnitude's bits
#pragma unroll 4
      for (int i = lane; m < real && i < taps; i += 32) {
        const uint32_t twice = 2 * __float_as_uint(room[m * stride + i]);
        largest = max(largest, twice), smallest = min(smallest, twice - 1);
      }
      // NaN, which no number is less than, comes out as NaN.
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
    if (first + tiling.piece < kFilters) __syncthreads();  // before the next ones are copied there
  }
  return __syncthreads_or(needs_fallback);
}

}  // namespace image_bands
}  // namespace fops
