// Float32 grade from half-precision tensor cores: scaling a value and splitting it into halves.
//
// A float32 value v, scaled by a power of two so that it is well inside half's range, is split into hi = half(v) and lo
// = half(v - hi): 22 bits or more of v's 24. Then
//     v * w = hi*whi + (lo*whi + hi*wlo) + lo*wlo,
// each product of two halves is exact in float32, and the last term, 2^-24 of the first, is dropped. Three matrix
// products in place of one, at a rate fifteen times the float32 pipes'. Ootomo and Yokota (2022) describe the method
// and its one trap: tensor cores truncate as they accumulate, so the chains of additions must be short.
#pragma once

#include <cuda_fp16.h>

#include <cstdint>

namespace fops {

// Images are scaled by 2^6 before they are split: both pixels 0..255 (16,320 at most) and activations of +-1 are in the
// window [0.5, 32768], where lo keeps 2^-25 or better. A tile whose largest value is outside gets its own scale
// (scale_for): the same rule for every tile, so that a result never depends on the block that computed it.
constexpr float kImageScale = 64.0f;
constexpr float kWindowLow = 0.5f, kWindowHigh = 32768.0f;

struct Split {
  __half hi, lo;
};

__device__ inline Split split(float scaled) {
  const __half hi = __float2half_rn(scaled);
  return {hi, __float2half_rn(scaled - __half2float(hi))};
}

// Splits like the function above, but lo is enlarged 2^11 times, to the magnitude of hi: as one of half's smallest
// numbers, lo would lose its last bits. The products with one low half then have separate sums, which are scaled back
// at the end. A value from 2^-12 up loses at most one unit in its 24th bit, and a larger window of values can share one
// scale.
constexpr float kLowScale = 2048.0f;
__device__ inline Split split_enlarged(float scaled) {
  const __half hi = __float2half_rn(scaled);
  return {hi, __float2half_rn((scaled - __half2float(hi)) * kLowScale)};
}

// The smallest nonzero scaled magnitude that a sum of n products may contain. Below 2^-12 a value loses bits: up to
// sqrt(n) / 4 units of the sqrt(n) units that the bound leaves (docs/precision.md), and none for few products. With
// sqrt(n) / 2 some sums of pixels far apart were at 1.04 to 1.3 of the bound; with sqrt(n) / 4 some sums of 50 products
// were at 1.04.
__host__ __device__ inline float min_scaled(float n) { return 0x1p-12f / (n >= 64.0f ? 0.25f * sqrtf(n) : 1.0f); }
// The bits of a value in the order of magnitudes, with zero above all other values.
__device__ inline uint32_t nonzero_bits(float v) { return 2 * __float_as_uint(v) - 1; }

// Two halves in one register; the first is in the low 16 bits.
__device__ inline uint32_t bits(__half2 two) { return reinterpret_cast<const uint32_t&>(two); }
__device__ inline uint32_t pack(__half low, __half high) {
  return static_cast<uint32_t>(__half_as_ushort(low)) | static_cast<uint32_t>(__half_as_ushort(high)) << 16;
}

// Two values split by split_enlarged; each part is packed.
struct SplitPair {
  uint32_t hi, lo;
};

__device__ inline SplitPair split_pair(float a, float b) {
  const __half2 hi = __floats2half2_rn(a, b);
  return {bits(hi),
          bits(__floats2half2_rn((a - __low2float(hi)) * kLowScale, (b - __high2float(hi)) * kLowScale))};
}

// Two neighbouring pixels as a word of rounded halves and, with kResidue, also their rounding residues. Returns whether
// the first pixel was exact and, with kBoth, also the second, which otherwise is the first pixel of the next word.
template <bool kResidue, bool kEnlarged, bool kBoth = false>
__device__ inline bool round_pair(float here, float next, uint32_t* hi, uint32_t* lo) {
  constexpr float kSize = kEnlarged ? kLowScale : 1.0f;  // scale of lo, as in split_enlarged and split
  const __half2 rounded = __floats2half2_rn(here, next);
  const float rest = here - __low2float(rounded);  // nonzero for infinities and NaN too
  *hi = bits(rounded);
  if (kResidue)
    *lo = pack(__float2half_rn(rest * kSize), __float2half_rn((next - __high2float(rounded)) * kSize));
  return rest == 0.0f && (!kBoth || next - __high2float(rounded) == 0.0f);
}

// The power of two that scales `largest` into [2^13, 2^14); 1 for zero. It stops at 2^-60, so that the product of the
// inverses of two scales is a float: with 2^-78 outputs of zeros were NaN where weights and other pixels were 1e26. It
// also stops at 2^100: a sum of 2^19 products of scaled values, below 2^47, stays finite under one inverse after the
// other.
__device__ inline float scale_for(float largest) {
  if (!(largest > 0.0f)) return 1.0f;
  const int exponent = static_cast<int>(__float_as_uint(largest) >> 23);  // of `largest`, plus 127
  return __uint_as_float(static_cast<uint32_t>(127 + max(-60, min(100, 13 + 127 - exponent))) << 23);
}
// 1 / scale, for a power of two.
__device__ inline float inverse_power(float scale) { return __uint_as_float(0x7f000000u - __float_as_uint(scale)); }
// Magnitudes from this one on exceed half's range even with the smallest scale.
constexpr float kLargestScaled = 0x1p74f;

}  // namespace fops
