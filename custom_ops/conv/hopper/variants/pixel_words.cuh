// For column_strips.cu and warpgroup_images.cu: staging pixels and splitting weights.
//
// A staged pixel is kWords words of two channels each, in a plane of high parts and in a plane of low parts. So the
// taps of a filter's row, for all channels, are 5 kWords neighbouring words: one or two mma steps of eight words. Words
// past the last tap are multiplied by zero weights; kPad zeros at the end of each plane ensure that these words are not
// NaN.
#pragma once

#include "conv/cuda/dims.h"
#include "gpu/isa/halves.cuh"
#include "gpu/isa/shared_memory.cuh"
#include "gpu/largest.cuh"

namespace fops {
namespace pixel_words {

constexpr int K = 5;
constexpr int kFilters = 16;
constexpr int kPad = 16;
__host__ __device__ constexpr int steps(int words) { return (K * words + 7) / 8; }

// The threads that stage an image together: this thread's number among them, and their number.
struct Threads {
  int rank, count;
};

// Returns the largest magnitude of this thread's pixels.
__device__ inline float own_largest(Threads own, const float* source, int C, int pixels, bool vector) {
  const int group = vector ? 4 : 1;
  float largest = 0.0f;
  for (int i = own.rank * group; i < pixels; i += own.count * group)
    for (int c = 0; c < C; ++c)
      for (int e = 0; e < group; ++e) largest = larger(largest, source[c * pixels + i + e]);
  return largest;
}

// Properties of the values that a thread has split.
struct Seen {
  unsigned top = 0;         // bits of the largest high parts' magnitudes, two halves
  uint32_t smallest = ~0u;  // nonzero_bits of the smallest nonzero value

  // Scales and splits two values into a word of high parts and a word of low parts.
  __device__ void split(float a, float b, float scale, uint32_t* hi, uint32_t* lo) {
    const SplitPair v = split_pair(a * scale, b * scale);
    *hi = v.hi;
    *lo = v.lo;
    top = __vmaxu2(top, *hi & 0x7fff7fffu);
    smallest = min(smallest, min(nonzero_bits(a), nonzero_bits(b)));
  }
  // Returns the largest high part's magnitude as the bits of a half; if a nonzero value is below `minimum`, a number
  // that is larger than the bits of any half.
  __device__ unsigned top_or_small(float minimum) const {
    return smallest < nonzero_bits(minimum) ? 0x10000u : max(top & 0xffffu, top >> 16);
  }
};

// Splits this thread's pixels into `hi` and `lo`. Loads kGroups groups of four pixels together.
template <int kWords, int kGroups = 2>
__device__ Seen split_own(Threads own, const float* source, int C, int pixels, bool vector, float scale, uint32_t* hi,
                          uint32_t* lo) {
  Seen seen;
  if (vector) {
#pragma unroll 1
    for (int i = 4 * own.rank; i < pixels; i += 4 * kGroups * own.count) {
      float4 v[kGroups][2 * kWords];
#pragma unroll
      for (int n = 0; n < kGroups; ++n)
#pragma unroll
        for (int c = 0; c < 2 * kWords; ++c) {
          const int at = i + n * 4 * own.count;
          v[n][c] = make_float4(0.0f, 0.0f, 0.0f, 0.0f);
          if (at < pixels && c < C) v[n][c] = __ldg(reinterpret_cast<const float4*>(source + c * pixels + at));
        }
#pragma unroll
      for (int n = 0; n < kGroups; ++n) {
        const int at = i + n * 4 * own.count;
        if (at >= pixels) break;
        uint32_t high[4 * kWords], low[4 * kWords];
#pragma unroll
        for (int w = 0; w < kWords; ++w) {
          const float4 a = v[n][2 * w], b = v[n][2 * w + 1];
          seen.split(a.x, b.x, scale, high + w, low + w);
          seen.split(a.y, b.y, scale, high + kWords + w, low + kWords + w);
          seen.split(a.z, b.z, scale, high + 2 * kWords + w, low + 2 * kWords + w);
          seen.split(a.w, b.w, scale, high + 3 * kWords + w, low + 3 * kWords + w);
        }
#pragma unroll
        for (int w = 0; w < 4 * kWords; w += 4) {
          store_shared(hi + at * kWords + w, high + w);
          store_shared(lo + at * kWords + w, low + w);
        }
      }
    }
  } else {
    for (int i = own.rank; i < pixels; i += own.count)
#pragma unroll
      for (int w = 0; w < kWords; ++w) {
        const bool two = 2 * w + 2 < 2 * kWords || C == 2 * kWords;
        seen.split(source[2 * w * pixels + i], two ? source[(2 * w + 1) * pixels + i] : 0.0f, scale,
                   hi + i * kWords + w, lo + i * kWords + w);
      }
  }
  return seen;
}

// Splits word `word` (two channels of a tap) of row p of filter m.
template <int kWords>
__device__ inline SplitPair weight_word(const float* k, const Dims& d, float scale, int m, int p, int word) {
  const int q = word / kWords, c = word % kWords * 2;
  const bool real = m < d.M && q < K;
  const float* filter = k + (m * d.C + c) * K * K + p * K + q;
  const Split a = split_enlarged(real ? filter[0] * scale : 0.0f);
  const Split b = split_enlarged(real && c + 1 < d.C ? filter[K * K] * scale : 0.0f);
  return {pack(a.hi, b.hi), pack(a.lo, b.lo)};
}

}  // namespace pixel_words
}  // namespace fops
