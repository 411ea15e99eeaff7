// conv_pixels.cu: from staged pixels to pooled outputs.
#pragma once

#include "gpu/isa/mma.cuh"
#include "gpu/isa/tanh.cuh"
#include "net/cuda/kernels/conv_pixels/layout.cuh"
#include "net/cuda/kernels/stages.h"

namespace fops {
namespace fused_pixels {

// Where a block gathers an image's outputs: floats, or all high halves and then all low ones.
struct Outgoing {
  float* floats;
  __half *hi, *lo;
};

// Two neighbouring outputs of a filter, from the largest sums of their windows; `i` is the place of the first. The work
// is done whether or not it counts: a branch here keeps the next tile's products from overlapping it.
template <bool kHalves>
__device__ inline void emit(const Outgoing& to, int i, bool first, bool second, float a, float b) {
  if constexpr (kHalves) {  // their number is even: both or none
    const float y0 = tanh_of_argument<kTanhScale>(a), y1 = tanh_of_argument<kTanhScale>(b);
    const __half2 high = __floats2half2_rn(y0, y1);
    const __half2 low = __floats2half2_rn(y0 - __low2float(high), y1 - __high2float(high));
    if (first) *reinterpret_cast<__half2*>(to.hi + i) = high;
    if (first) *reinterpret_cast<__half2*>(to.lo + i) = low;
  } else {
    const float y0 = tanh_of_argument(a), y1 = tanh_of_argument(b);
    if (first) to.floats[i] = y0;
    if (second) to.floats[i + 1] = y1;
  }
}

// Eight outputs of the filters of tiles kFrom to kTo - 1, and with kRest of those left over, from staged pixels.
// kUnit: the sums need no scaling.
template <bool kExact, bool kUnit, bool kHalves, int kFrom, int kTo, bool kRest, bool kLast, int kFragments>
__device__ __forceinline__ void products(const Sizes& s, const uint32_t (&weights)[kFragments][4],
                                         const int (&offset)[4], float unscale, float rescale, const uint32_t* hi,
                                         const uint32_t* lo, const Outgoing& to, int chunk) {
  const int lane = threadIdx.x % 32, g = lane / 4, t = lane % 4;
  uint32_t in[2][2][4], rest[2][2][4];  // [even or odd output][row of the window][register]
#pragma unroll
  for (int j = 0; j < 2; ++j) {
    const int at = min(chunk + g / 2 * 2 + j, s.outputs - 1), row = divide(at, s.inverse_PW);
    const int corner = 4 * (2 * row * s.stride + 2 * (at - row * s.PW) + g % 2);
#pragma unroll
    for (int r = 0; r < 2; ++r)
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        const int from = corner + r * 4 * s.stride + offset[i];
        in[j][r][i] = *reinterpret_cast<const uint32_t*>(reinterpret_cast<const char*>(hi) + from);
        if (!kExact) rest[j][r][i] = *reinterpret_cast<const uint32_t*>(reinterpret_cast<const char*>(lo) + from);
      }
  }
  const auto scaled = [&](float v) { return kUnit ? v : kExact ? v * unscale : v * unscale * rescale; };
  const int first = chunk + 2 * t;
  const bool one = first < s.outputs, two = first + 1 < s.outputs;
  int place = (16 * kFrom + g) * s.outputs + first;

#pragma unroll
  for (int tile = kFrom; tile < kTo; ++tile) {
    float sum[2][2][4] = {};
#pragma unroll
    for (int step = 0; step < kSteps; ++step)
#pragma unroll
      for (int e = 0; e < 4; ++e)
        mma(sum[e / 2][e % 2], weights[tile * 4 + step], in[e / 2][e % 2][2 * step], in[e / 2][e % 2][2 * step + 1]);
    if (!kExact) {
#pragma unroll
      for (int step = 0; step < kSteps; ++step)
#pragma unroll
        for (int e = 0; e < 4; ++e)
          mma(sum[e / 2][e % 2], weights[tile * 4 + 2 + step], rest[e / 2][e % 2][2 * step],
              rest[e / 2][e % 2][2 * step + 1]);
    }
#pragma unroll
    for (int step = 0; step < kSteps; ++step)
#pragma unroll
      for (int e = 0; e < 4; ++e)
        mma(sum[e / 2][e % 2], weights[tile * 4 + 2 + step], in[e / 2][e % 2][2 * step],
            in[e / 2][e % 2][2 * step + 1]);
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      float v[2];
#pragma unroll
      for (int j = 0; j < 2; ++j)
        v[j] = scaled(fmaxf(fmaxf(sum[j][0][2 * half], sum[j][0][2 * half + 1]),
                            fmaxf(sum[j][1][2 * half], sum[j][1][2 * half + 1])));
      const bool real = !kLast || tile < kTo - 1 || 16 * tile + 8 * half + g < s.M;
      emit<kHalves>(to, place, one && real, two && real, v[0], v[1]);
      place += 8 * s.outputs;
    }
  }
  if (kRest) {
    float sum[2][2][4] = {};
#pragma unroll
    for (int step = 0; step < kSteps; ++step)
#pragma unroll
      for (int e = 0; e < 4; ++e) {
        const uint32_t(&w)[4] = weights[kTo * 4 + step];
        if (!kExact) mma(sum[e / 2][e % 2], w, rest[e / 2][e % 2][2 * step], rest[e / 2][e % 2][2 * step + 1]);
        mma(sum[e / 2][e % 2], w, in[e / 2][e % 2][2 * step], in[e / 2][e % 2][2 * step + 1]);
      }
    float v[2];
#pragma unroll
    for (int j = 0; j < 2; ++j)
      v[j] = scaled(fmaxf(fmaxf(sum[j][0][0] + sum[j][0][2], sum[j][0][1] + sum[j][0][3]),
                          fmaxf(sum[j][1][0] + sum[j][1][2], sum[j][1][1] + sum[j][1][3])));
    const bool real = 16 * kTo + g < s.M;
    emit<kHalves>(to, place, one && real, two && real, v[0], v[1]);
  }
}

// One image's outputs. Where the last round has chunks for half the warps, or fewer, two warps share one: fa2017's 18
// chunks take four warps 4.5 rounds, not 5.
template <bool kExact, bool kUnit, bool kHalves, int kFull, bool kRest>
__device__ void multiply(const Sizes& s, const uint32_t (&weights)[fragments(kFull, kRest)][4], const int (&offset)[4],
                         float unscale, float rescale, const uint32_t* hi, const uint32_t* lo, const Outgoing& to) {
  constexpr int kHalf = (kFull + 1) / 2;
  constexpr bool kShare = kHalf < kFull || kRest;
  const int warp = threadIdx.x / 32, chunks = (s.outputs + kChunk - 1) / kChunk;
  const int shared = kShare && chunks % kWarps <= kWarps / 2 ? chunks % kWarps : 0;
  for (int chunk = warp; chunk < chunks - shared; chunk += kWarps)
    products<kExact, kUnit, kHalves, 0, kFull, kRest, !kRest>(s, weights, offset, unscale, rescale, hi, lo, to,
                                                              chunk * kChunk);
  if constexpr (kShare) {
    if (warp >= 2 * shared) return;
    const int chunk = (chunks - shared + warp / 2) * kChunk;
    if (warp % 2 == 0)
      products<kExact, kUnit, kHalves, 0, kHalf, false, false>(s, weights, offset, unscale, rescale, hi, lo, to, chunk);
    else
      products<kExact, kUnit, kHalves, kHalf, kFull, kRest, !kRest>(s, weights, offset, unscale, rescale, hi, lo, to,
                                                                    chunk);
  }
}

}  // namespace fused_pixels
}  // namespace fops
