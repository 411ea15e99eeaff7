// Splits images and filters into high and low parts: chooses their scales, and finds values that cannot be split well.
// gpu/isa/halves.cuh has the arithmetic.
#pragma once

#include "conv/cuda/dims.h"
#include "conv/hopper/plan.h"
#include "gpu/isa/bulk_copy.cuh"
#include "gpu/isa/halves.cuh"
#include "gpu/largest.cuh"

namespace fops {

// The scale of an image, by which its values are multiplied before they are split. It depends on the image alone, so
// that the image's result does too. A value is unsplittable if it is infinite or NaN, if it exceeds half precision's
// range once scaled, or if it is nonzero and its magnitude is below `minimum`. Outputs that depend on such a value need
// the fallback.
struct ImageScale {
  float scale,  // a power of two
      minimum;  // minimum magnitude before scaling: the plan's threshold divided by `scale`
};

template <typename X>
__device__ inline bool is_unsplittable(X x, const ImageScale& by) {
  const float v = static_cast<float>(x);
  const bool large = (__half_as_ushort(__float2half_rn(v * by.scale)) & 0x7fff) >= 0x7c00;
  return large || nonzero_bits(v) < nonzero_bits(by.minimum);
}

namespace hopper {

constexpr int kSamples = 8;  // values of an image that a lane samples; a warp samples 256

// Returns the offset, in a tile of weights, of the 16 bytes of row `row` and unit `half` (0 or 1).
__device__ inline int row_bytes(int row, int half) { return half * kTileDepth + row * 16; }

// Returns the index of a sample in an image of `count` values, at most count - 1. Samples are taken in runs of four
// neighbours, because memory is read 32 bytes at a time. The stride between runs is odd: with an even stride and an
// even width, the runs might all be in a few columns. An image of up to 256 values is sampled completely.
__device__ inline int sample_at(int sample, int count) {
  constexpr int kRun = 4, kRuns = 32 * kSamples / kRun;
  const int stride = max(kRun, (count / kRuns - 1) | 1);
  return min(sample / kRun * stride + sample % kRun, count - 1);
}

// Returns an image's scale, which brings the largest magnitude of a sample into [2^11, 2^12). Values outside the sample
// may be up to about 16 times as large.
__device__ inline float sampled_scale(float largest) {
  return scale_for(largest < INFINITY ? largest : 1.0f) * 0.25f;  // [2^13, 2^14) / 4
}

// A warp's sample of an image: the constructor starts the loads, `scale` waits for them. uint8 images have a fixed
// scale, and need no sample. `lane`: this thread's lane; a caller with few registers can read it again instead of
// keeping it.
template <typename X>
struct ImageSample {
  float v[kSamples];
  __device__ ImageSample(const X* image, int count, uint32_t lane = threadIdx.x % 32) {
    if constexpr (sizeof(X) > 1)
#pragma unroll
      for (int i = 0; i < kSamples; ++i)  // has no branch, so that the loads overlap
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

__device__ inline void prefetch_sample(const float* image, int count) {
#pragma unroll 1
  for (int i = threadIdx.x % 32; i < 32 * kSamples; i += 32) prefetch_l2(image + sample_at(i, count));
}

// Computes the scales of kWarps * kEach filters with kWarps warps. unscale[m] receives the factor that undoes filter
// m's scale. Calls keep(m, i, weight) for each weight, i from 0 to taps - 1. Returns whether a weight that this lane's
// warp read is unsplittable.
//
// A lane loads kOnce weights of each filter together, without a branch in between: past the last weight or filter it
// loads the last one again.
template <int kWarps, int kEach, int kOnce, typename Keep>
__device__ __forceinline__ bool filter_scales(const Dims& d, int taps, float threshold, const float* __restrict__ k,
                                              float* unscale, Keep keep) {
  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
  uint32_t largest[kEach] = {},  // twice the bits of the largest magnitude
      smallest[kEach];           // nonzero_bits of the smallest nonzero weight
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
  bool needs_fallback = false;
#pragma unroll
  for (int n = 0; n < kEach; ++n) {
    const float maximum =
        __uint_as_float(warp_max(largest[n]) / 2);  // NaN if any weight is NaN, whose bits are the largest
    const bool finite = maximum < kLargestScaled;
    const float scale = finite ? scale_for(maximum) : 1.0f;
    needs_fallback |= !finite || smallest[n] < nonzero_bits(threshold / scale);
    if (lane == 0) unscale[warp + n * kWarps] = 1.0f / scale;
  }
  return needs_fallback;
}

// Splits eight scaled weights, of which pair(t) returns numbers 2 t and 2 t + 1, into *hi and *lo.
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

// Splits a filter's eight weights of a unit: row p of the filter, from column q on, `channels` channels (8, 4, 2 or 1)
// per column, from `channel` on.
__device__ inline void split_unit(const float* filter, int channel, int p, int q, int channels, const Dims& d,
                                  float scale, uint4* hi, uint4* lo) {
  const int shift = __ffs(channels) - 1;  // e >> shift is e / channels; the division would double this function's time
  const auto weight = [&](int e) {
    const int c = channel + (e & (channels - 1)), column = q + (e >> shift);
    return c < d.C && column < d.K ? filter[(c * d.K + p) * d.K + column] * scale : 0.0f;
  };
  split_eight([&](int t) { return make_float2(weight(2 * t), weight(2 * t + 1)); }, hi, lo);
}

__device__ inline bool not_finite(uint32_t halves) {
  const uint32_t magnitudes = halves & 0x7fff7fffu;
  return max(magnitudes & 0xffffu, magnitudes >> 16) >= 0x7c00u;
}

// Sets values whose high part is not finite to zero: otherwise a zero weight times an infinity would make outputs NaN
// that do not depend on the value.
__device__ inline void drop_not_finite(uint32_t& hi, uint32_t& lo) {
  const uint32_t keep = (not_finite(hi & 0xffffu) ? 0u : 0xffffu) | (not_finite(hi >> 16) ? 0u : ~0xffffu);
  hi &= keep, lo &= keep;
}
__device__ inline void drop_not_finite(uint32_t (&hi)[4], uint32_t (&lo)[4]) {
#pragma unroll
  for (int e = 0; e < 4; ++e) drop_not_finite(hi[e], lo[e]);
}

struct Seen {
  uint32_t low = 0;             // bitwise or of all low parts, two halves per word
  bool needs_fallback = false;  // whether a value is unsplittable

  // Splits the 8 values of a slot's entry, and stores their high and low parts.
  __device__ void split_row(const float (&v)[8], const ImageScale& by, uint4* high_to, uint4* low_to) {
    uint32_t hi[4], lo[4], largest = 0, smallest = ~0u;
#pragma unroll
    for (int e = 0; e < 4; ++e) {
      const SplitPair parts = split_pair(v[2 * e] * by.scale, v[2 * e + 1] * by.scale);
      hi[e] = parts.hi, lo[e] = parts.lo;
      largest = __vmaxu2(largest, hi[e] & 0x7fff7fffu);
      smallest = min(smallest, min(nonzero_bits(v[2 * e]), nonzero_bits(v[2 * e + 1])));
    }
    if (not_finite(largest)) {
      needs_fallback = true;
      drop_not_finite(hi, lo);
    }
    low |= lo[0] | lo[1] | lo[2] | lo[3];
    needs_fallback |= smallest < nonzero_bits(by.minimum);
    *high_to = make_uint4(hi[0], hi[1], hi[2], hi[3]);
    *low_to = make_uint4(lo[0], lo[1], lo[2], lo[3]);
  }
};

// Splits kRows entries of 8 values each, without a branch or store in between, so that their instructions overlap.
template <int kRows>
struct SplitRows {
  uint32_t hi[kRows][4], lo[kRows][4];
  bool infinite;  // whether a value's high part is not finite; such values are set to zero

  __device__ SplitRows(const float (&v)[kRows][8], const float (&scale)[kRows]) {
    uint32_t largest = 0;
#pragma unroll
    for (int n = 0; n < kRows; ++n)
#pragma unroll
      for (int e = 0; e < 4; ++e) {
        const SplitPair parts = split_pair(v[n][2 * e] * scale[n], v[n][2 * e + 1] * scale[n]);
        hi[n][e] = parts.hi, lo[n][e] = parts.lo;
        largest = __vmaxu2(largest, parts.hi & 0x7fff7fffu);
      }
    infinite = (largest + 0x04000400u & 0x80008000u) != 0;  // whether one of the two halves is 0x7c00 or more
    if (infinite)
#pragma unroll
      for (int n = 0; n < kRows; ++n) drop_not_finite(hi[n], lo[n]);
  }
  __device__ void store(int n, uint4* high_to, uint4* low_to) const {
    *high_to = make_uint4(hi[n][0], hi[n][1], hi[n][2], hi[n][3]);
    *low_to = make_uint4(lo[n][0], lo[n][1], lo[n][2], lo[n][3]);
  }
};

}  // namespace hopper
}  // namespace fops
