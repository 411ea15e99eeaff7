// For image_bands.cu: the tiling, staging of a band of an image, and splitting the weights.
#pragma once

#include "conv/hopper/fallback.cuh"
#include "conv/hopper/variants/any_shape/staging.cuh"
#include "gpu/isa/bulk_copy.cuh"
#include "gpu/isa/wgmma.cuh"

namespace fops {
namespace image_bands {

using namespace hopper;  // slots, units and steps (plan.h), splitting, the fallback

constexpr int kGroups = 2, kThreads = 128 * kGroups;  // warpgroups and threads per block
constexpr int kTile = 64;                             // positions that a warpgroup computes at a time: a wgmma's rows
constexpr int kStride = kTile + 4;                    // floats from one filter's outputs to the next; 4 shift the banks

struct Tiling {
  Chunks chunks;                    // all slots in one chunk
  int rows;                         // output rows per band
  int bands;                        // bands per image
  int steps;                        // wgmma steps over all units
  int chain;                        // maximum number of steps per chain
  uint32_t places[kMaxSteps];       // see place_of
  uint16_t origins[2 * kMaxSteps];  // see origin_of
  uint32_t inverse_W, inverse_staged;
  Divisor by_bands;
  int piece;        // number of filters whose original weights are in shared memory at a time: all, or 8, 4, 2 or 1
  float threshold;  // minimum scaled magnitude of a nonzero value: see ImageScale

  __host__ __device__ int staged(const Dims& d) const { return (rows + d.K - 1) * d.W; }  // positions
};

// Issues steps `begin` to `end` - 1 for 64 positions. `both` is overwritten with products of the pixels' high parts;
// products of their low parts, which are `low` entries after the high parts, are added to `small` (overwritten if
// `begin` is 0).
// `corner` and `weights` are the lower 32 bits of descriptors. Their unit is 16 bytes: an entry, or a filter.
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

// Combines a lane's sums of number i, which belong to filter i / 4 * 8 + 2 t + i % 2. The result is still scaled.
// `total`: the sum of all chains of `both`. kFew: see image_bands.cu.
template <bool kFew, int kFilters, int kSmallSums>
__device__ __forceinline__ float scaled_sum(const float (&total)[kFilters], const float (&small)[kSmallSums], int i) {
  float v = total[kFilters / 2 + i] + small[i];
  if constexpr (kFew) v += small[kFilters / 2 + i] * (1.0f / kLowScale);
  return total[i] + v * (1.0f / kLowScale);
}

struct Band {
  uint32_t smallest = ~0u;  // nonzero_bits of the smallest nonzero value
  bool infinite = false;    // whether a value's high part is not finite
};

// Stages `slots` slots of kChannels channels each, from `channel` on, for `count` positions of a band. The positions of
// all slots are divided among the threads together, because a band may have fewer positions than a warp has lanes.
// `left`: number of values of a plane from the band's first on. Past these, and past the last channel, the last value
// is read again, so that there is no branch between loads; such values do not affect outputs. kMany: whether there are
// several slots; for one slot, a division per entry is saved.
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

// Stages all slots of a band: the high parts as [slot][position], and the low parts `low` entries after them. A last
// band with fewer rows is staged to the same length as others.
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
    if (slots > 1)
      stage_some(std::true_type());
    else
      stage_some(std::false_type());
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

// Splits the weights into shared memory: [unit][high, low][filter]. Each weight is read several times, so the weights
// are first copied to `room`, the space of the bands. unscale[m] receives the factor that undoes filter m's scale.
// Returns whether a weight is unsplittable.
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
    __syncwarp();  // is enough here: until the block's barrier, a warp reads only filters that it has copied
    for (int m = warp; m < tiling.piece; m += kThreads / 32) {
      uint32_t largest = 0,  // twice the bits of the largest magnitude
          smallest = ~0u;    // nonzero_bits of the smallest nonzero weight
#pragma unroll 4
      for (int i = lane; m < real && i < taps; i += 32) {
        const uint32_t twice = 2 * __float_as_uint(room[m * stride + i]);
        largest = max(largest, twice), smallest = min(smallest, twice - 1);
      }
      // The result is NaN if any weight is NaN, because the bits of NaN exceed those of all numbers.
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
    if (first + tiling.piece < kFilters) __syncthreads();  // waits until all threads have read these filters
  }
  return __syncthreads_or(needs_fallback);
}

}  // namespace image_bands

namespace hopper {

// Runs a layer, and sets *taken to true, if each SM gets at most one block and shared memory suffices; otherwise sets
// *taken to false. In image_bands_resident.cu.
fops_status run_image_bands_resident(const fops_conv& c, const Chunks& chunks, int chain, int sms, const float* x,
                                     const float* k, float* y, cudaStream_t stream, bool* taken);

}  // namespace hopper
}  // namespace fops
