// For warpgroup_images.cu: staging pixels, and the operands of wgmma, which are pixels in registers and weights in shared
// memory.
//
// A staged pixel is kWords words of two channels each, in a plane of high parts and in a plane of low parts. So the
// taps of a filter's row, for all channels, are 5 kWords neighbouring words: one or two steps of eight words. Words past
// the last tap are multiplied by zero weights; kPad zeros at the end of each plane ensure that these words are not NaN.
#pragma once

#include "conv/cuda/dims.h"
#include "conv/hopper/pipeline.cuh"
#include "gpu/isa/halves.cuh"
#include "gpu/isa/shared_memory.cuh"
#include "gpu/largest.cuh"

namespace fops::warpgroup_images {

constexpr int K = 5;
constexpr int kFilters = 16;
constexpr int kPad = 16;
__host__ __device__ constexpr int steps(int words) { return (K * words + 7) / 8; }

constexpr int kWarps = 4,
              kThreads = 32 * kWarps;  // warps and threads of a warpgroup, which stages or computes an image

__device__ inline float own_largest(int thread, const float* source, int C, int pixels, bool vector) {
  const int group = vector ? 4 : 1;
  float largest = 0.0f;
  for (int i = thread * group; i < pixels; i += kThreads * group)
    for (int c = 0; c < C; ++c)
      for (int e = 0; e < group; ++e) largest = larger(largest, source[c * pixels + i + e]);
  return largest;
}

struct Seen {
  unsigned top = 0;         // bits of the largest high parts' magnitudes, two halves
  uint32_t smallest = ~0u;  // nonzero_bits of the smallest nonzero value

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

template <int kWords>
__device__ Seen split_own(int thread, const float* source, int C, int pixels, bool vector, float scale, uint32_t* hi,
                          uint32_t* lo) {
  Seen seen;
  if (vector) {
#pragma unroll 1
    for (int i = 4 * thread; i < pixels; i += 4 * kThreads) {
      float4 v[2 * kWords];
#pragma unroll
      for (int c = 0; c < 2 * kWords; ++c)
        v[c] = c < C ? __ldg(reinterpret_cast<const float4*>(source + c * pixels + i)) : float4{};
      uint32_t high[4 * kWords], low[4 * kWords];
#pragma unroll
      for (int w = 0; w < kWords; ++w) {
        const float4 a = v[2 * w], b = v[2 * w + 1];
        seen.split(a.x, b.x, scale, high + w, low + w);
        seen.split(a.y, b.y, scale, high + kWords + w, low + kWords + w);
        seen.split(a.z, b.z, scale, high + 2 * kWords + w, low + 2 * kWords + w);
        seen.split(a.w, b.w, scale, high + 3 * kWords + w, low + 3 * kWords + w);
      }
#pragma unroll
      for (int w = 0; w < 4 * kWords; w += 4) {
        store_shared(hi + i * kWords + w, high + w);
        store_shared(lo + i * kWords + w, low + w);
      }
    }
  } else {
    for (int i = thread; i < pixels; i += kThreads)
#pragma unroll
      for (int w = 0; w < kWords; ++w) {
        const bool two = w + 1 < kWords || C == 2 * kWords;
        seen.split(source[2 * w * pixels + i], two ? source[(2 * w + 1) * pixels + i] : 0.0f, scale,
                   hi + i * kWords + w, lo + i * kWords + w);
      }
  }
  return seen;
}

template <int kWords>
__device__ inline SplitPair weight_word(const float* k, const Dims& d, float scale, int m, int p, int word) {
  const int q = word / kWords, c = word % kWords * 2;
  const bool real = m < d.M && q < K;
  const float* filter = k + (m * d.C + c) * K * K + p * K + q;
  const Split a = split_enlarged(real ? filter[0] * scale : 0.0f);
  const Split b = split_enlarged(real && c + 1 < d.C ? filter[K * K] * scale : 0.0f);
  return {pack(a.hi, b.hi), pack(a.lo, b.lo)};
}

constexpr int kWalks = 64;

// The circular buffer of weights has the filters' rows 0, 4, 3, 2, 1, 0, 4, 3, 2, so that the five rows from place (5 -
// r) % 5 on are those that sums 0 to 4 need at input row r. A row has the layout that wgmma reads: "core matrices" of 8
// filters by 4 words (128 bytes), first along the filters' words, then along filters. There is a buffer of high parts,
// then one of low parts.
constexpr int kPlaces = 2 * K - 1, kCore = 32;  // words of a core matrix
__host__ __device__ constexpr int place_words(int kSteps) { return kFilters / 8 * 2 * kSteps * kCore; }
__host__ __device__ constexpr int weight_words(int kSteps) { return kPlaces * place_words(kSteps); }

// Returns the largest `value` of a warpgroup's threads. `tops`: one word of shared memory per warp.
__device__ inline unsigned group_max(unsigned value, int group, unsigned* tops) {
  value = warp_max(value);
  if (threadIdx.x % 32 == 0) tops[threadIdx.x % kThreads / 32] = value;
  warpgroup_sync(group);
#pragma unroll
  for (int i = 0; i < kWarps; ++i) value = max(value, tops[i]);
  return value;
}

// The operands of one input row: this lane's words of walks g and g + 8 of its warp.
template <int kSteps>
struct Operands {
  uint32_t high[kSteps][4], low[kSteps][4];
  __device__ void load(int s, const uint32_t* a, const uint32_t* b, int plane) {
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      high[s][2 * i] = a[8 * s + 4 * i], high[s][2 * i + 1] = b[8 * s + 4 * i];
      low[s][2 * i] = a[plane + 8 * s + 4 * i], low[s][2 * i + 1] = b[plane + 8 * s + 4 * i];
    }
  }
  // Called after the wait for the wgmma that read these operands: see keep_register.
  __device__ void keep(int s) {
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      keep_register(high[s][i]);
      keep_register(low[s][i]);
    }
  }
};

}  // namespace fops::warpgroup_images
