// Any shape on Hopper: the weights split and laid out as wgmma reads them, and a scale for every image.
#pragma once

#include "conv/cuda/12_tensor_core/any_shape/plan.h"
#include "gpu/band_scale.cuh"
#include "gpu/isa/bulk_copy.cuh"
#include "gpu/isa/dependents.cuh"
#include "gpu/isa/halves.cuh"

namespace fops {
namespace any_shape {

constexpr int kPackThreads = 512;
constexpr int kImagesABlock = kPackThreads / 32;
constexpr int kSamples = 8;  // values of an image that a thread looks at: 256 in all

// Where row `row` of a tile keeps the 16 bytes of its unit `half`.
__device__ inline int row_bytes(int row, int half) { return half * kTileDepth + row * 16; }

// A sample's place in an image of `count` values; behind the last one it is the last one again. Four neighbours make a
// run, for memory gives 32 bytes at a time: with samples one by one fa2020's second layer took 7% longer. From run to
// run the stride is odd, so that the runs are no column of the image, whose sides are often even. An image of up to 256
// values is looked at whole.
__device__ inline int sample_at(int sample, int count) {
  constexpr int kRun = 4, kRuns = 32 * kSamples / kRun;
  const int stride = max(kRun, (count / kRuns - 1) | 1);
  return min(sample / kRun * stride + sample % kRun, count - 1);
}

// An image's scale, from the largest of a sample all over it, which comes to lie in [2^11, 2^12): a factor of 16 above
// is left for what the sample missed.
__device__ inline float sampled_scale(float largest) {
  return scale_for(largest < INFINITY ? largest : 1.0f) * 0.25f;  // [2^13, 2^14) / 4
}

// A warp's sample of an image, on its way: all lanes have the scale that follows. Bytes need none. `lane`: this
// thread's; a caller whose registers are few reads it anew.
template <typename X>
struct ImageSample {
  float v[kSamples];
  __device__ ImageSample(const X* image, int count, uint32_t lane = threadIdx.x % 32) {
    if constexpr (sizeof(X) > 1)
#pragma unroll
      for (int i = 0; i < kSamples; ++i)  // without a branch, or one load would wait for the other
        v[i] = __ldg(image + sample_at(32 * i + lane, count));
  }
  __device__ ImageScale scale(float threshold) const {
    float scale = 16.0f;
    if constexpr (sizeof(X) > 1) {
      float largest = 0.0f;
#pragma unroll
      for (int i = 0; i < kSamples; ++i) largest = larger(largest, v[i]);
      scale = sampled_scale(__uint_as_float(warp_max(__float_as_uint(largest))));
    }
    return {scale, threshold / scale};
  }
};
template <typename X>
__device__ ImageScale scale_of(const X* image, int count, float threshold, uint32_t lane = threadIdx.x % 32) {
  return ImageSample<X>(image, count, lane).scale(threshold);
}
template <typename X>
__device__ void choose_scale(const X* image, int count, float threshold, ImageScale* to,
                             uint32_t lane = threadIdx.x % 32) {
  const ImageScale by = scale_of(image, count, threshold, lane);
  if (lane == 0) *to = by;
}

// Fetches into L2 what a scale is chosen from, by a warp.
__device__ inline void prefetch_sample(const float* image, int count) {
#pragma unroll 1
  for (int i = threadIdx.x % 32; i < 32 * kSamples; i += 32) prefetch_l2(image + sample_at(i, count));
}

// The scale of each filter, by kWarps warps, kEach filters each: unscale[m] undoes filter m's. `keep(m, i, weight)` sees
// the weights, i from 0 to taps - 1. Returns whether one that this lane's warp saw has no good split.
//
// A lane loads kOnce weights of each filter together. Behind the last weight, and behind the last filter, whose outputs
// are not stored, it is the last one again: so no branch comes between the loads, and all are on their way before one is
// waited for. (One by one they took 10% of fa2018's second layer, 1,000 images.)
template <int kWarps, int kEach, int kOnce, typename Keep>
__device__ __forceinline__ bool filter_scales(const Dims& d, int taps, float threshold, const float* __restrict__ k,
                                              float* unscale, Keep keep) {
  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
  uint32_t largest[kEach] = {}, smallest[kEach];  // twice a magnitude's bits, and as nonzero_bits
#pragma unroll
  for (int n = 0; n < kEach; ++n) smallest[n] = ~0u;
#pragma unroll 1
  for (int begin = lane; begin < taps; begin += 32 * kOnce) {
    float v[kOnce][kEach];
#pragma unroll
    for (int i = 0; i < kOnce; ++i)
#pragma unroll
      for (int n = 0; n < kEach; ++n)
        v[i][n] = __ldg(k + min(warp + n * kWarps, d.M - 1) * taps + min(begin + 32 * i, taps - 1));
#pragma unroll
    for (int i = 0; i < kOnce; ++i)
#pragma unroll
      for (int n = 0; n < kEach; ++n) {
        if (begin + 32 * i < taps) keep(warp + n * kWarps, begin + 32 * i, v[i][n]);
        const uint32_t twice = 2 * __float_as_uint(v[i][n]);
        largest[n] = max(largest[n], twice), smallest[n] = min(smallest[n], twice - 1);
      }
  }
  bool beyond = false;
#pragma unroll
  for (int n = 0; n < kEach; ++n) {
    const float most = __uint_as_float(warp_max(largest[n]) / 2);  // NaN comes out as NaN: no number is less
    const bool finite = most < kLargestScaled;
    const float scale = finite ? scale_for(most) : 1.0f;
    beyond |= !finite || smallest[n] < nonzero_bits(threshold / scale);
    if (lane == 0) unscale[warp + n * kWarps] = 1.0f / scale;
  }
  return beyond;
}

// Eight weights, split: `pair` takes 0 to 3 and gives two of them, scaled.
template <typename Pair>
__device__ __forceinline__ void split_eight(Pair pair, uint4* hi, uint4* lo) {
  uint32_t high[4], low[4];
#pragma unroll
  for (int t = 0; t < 4; ++t) {
    const float2 v = pair(t);
    const SplitPair parts = split_pair(v.x, v.y);
    high[t] = parts.hi, low[t] = parts.lo;
  }
  *hi = make_uint4(high[0], high[1], high[2], high[3]);
  *lo = make_uint4(low[0], low[1], low[2], low[3]);
}

// A filter's eight weights at a unit, split: `channels` of them a column (8, 4, 2 or 1), from (channel, p, q) on.
__device__ inline void split_unit(const float* filter, int channel, int p, int q, int channels, const Dims& d,
                                  float scale, uint4* hi, uint4* lo) {
  const int shift = __ffs(channels) - 1;  // a division by a variable would take as long as all else
  const auto weight = [&](int e) {
    const int c = channel + (e & (channels - 1)), column = q + (e >> shift);
    return c < d.C && column < d.K ? filter[(c * d.K + p) * d.K + column] * scale : 0.0f;
  };
  split_eight([&](int t) { return make_float2(weight(2 * t), weight(2 * t + 1)); }, hi, lo);
}

// A block a filter of the tiles, those of padding included; behind them a warp an image. 32 registers: see kernel.cuh.
template <typename X>
__global__ void __launch_bounds__(kPackThreads, 4)
    pack_weights(const __grid_constant__ Dims d, const __grid_constant__ Plan plan, const __grid_constant__ Steps steps,
                 int tiles, int rows_of_taps, const X* __restrict__ x, const float* __restrict__ k, Packed packed) {
  __shared__ unsigned scratch;
  let_next_kernel_begin();
  const int rows_a_tile = rows_of_taps > 0 ? kTileRows / 2 / rows_of_taps : kTileRows;
  const int filters = plan.blocks * tiles * rows_a_tile;
  const int m = blockIdx.x;
  if (m >= filters) {
    const long long image = 1LL * (m - filters) * kImagesABlock + threadIdx.x / 32;
    const int count = d.C * d.H * d.W;
    if (image < d.B) choose_scale(x + image * count, count, plan.threshold, packed.images + image);
    return;
  }

  const int taps = d.C * d.K * d.K;
  const float* filter = k + 1LL * m * taps;
  const auto [scale, fits] = weight_scale(filter, m < d.M ? taps : 0, plan.threshold, kPackThreads, &scratch);
  if (threadIdx.x == 0 && m < d.M) packed.unscale[m] = fits ? 1.0f / scale : 0.0f;

  const int tile = m / rows_a_tile, in_tile = m % rows_a_tile;
  const int block = tile / tiles, parts = rows_of_taps > 0 ? 1 : 2, places = max(1, rows_of_taps);
  for (int i = threadIdx.x; i < 2 * plan.steps * places; i += kPackThreads) {
    const int tap = i % places, step = i / places / 2, half = i / places % 2;
    const int chunk = min(step / plan.first_steps, plan.chunk_count - 1);
    uint4 hi = {}, lo = {};
    const int in_chunk = step - chunk * plan.first_steps;
    const uint16_t origin = steps.origins[chunk == plan.chunk_count - 1][2 * in_chunk + half];
    if (m < d.M && origin != kNoUnit) {
      const int channel = plan.chunks.slot(chunk * plan.chunks.a_chunk).channel + (origin >> 8);
      const int q = (origin & 15) + tap * plan.chunks.shift;
      const int channels = channel < 8 * plan.chunks.full ? 8 : plan.chunks.narrow;
      split_unit(filter, channel, origin >> 4 & 15, q, channels, d, scale, &hi, &lo);
    }
    // Stacked: warp w's rows 16 w to 16 w + 7 are high halves, the next eight their low halves, so that one lane holds
    // both sums. Taps follow one another, each with all filters of the tile.
    const int stacked = tap * rows_a_tile + in_tile, row = rows_of_taps > 0 ? stacked / 8 * 16 + stacked % 8 : in_tile;
    uint8_t* to = packed.tiles + ((1LL * block * plan.steps + step) * tiles + tile % tiles) * parts * kTileBytes;
    *reinterpret_cast<uint4*>(to + row_bytes(row, half)) = hi;
    *reinterpret_cast<uint4*>(to + (rows_of_taps > 0 ? row_bytes(row + 8, half) : kTileBytes + row_bytes(row, half))) = lo;
  }
}

}  // namespace any_shape
}  // namespace fops
