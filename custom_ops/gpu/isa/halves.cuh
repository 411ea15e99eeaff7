// Float32 grade from half-precision tensor cores: scaling float32 values and splitting them into high and low parts,
// which are half-precision values ("halves").
//
// A float32 value v, scaled by a power of two so that it is well inside half precision's range, is split into a high
// part hi = half(v) and a low part lo = half(v - hi). The two keep 22 or more of v's 24 bits. Then
//     v * w = hi*whi + (lo*whi + hi*wlo) + lo*wlo.
// Each product of two halves is exact in float32, and the last term, at most about 2^-22 of the first, is usually
// omitted. So three half-precision matrix products replace one in float32, at fifteen times the rate of the float32
// pipes. Ootomo and Yokota (2022) describe the method, and its pitfall: tensor cores truncate as they accumulate, so
// the chains of additions must be short.
#pragma once

#include <cuda_fp16.h>

#include <cstdint>

namespace fops {

// Images are scaled by 2^6 before they are split: then both the largest pixel, 255 (scaled 16,320), and activations of
// +-1 are in the window [0.5, 32768]. If the largest magnitude of a tile is outside this window, the tile gets another
// scale (scale_for). The rule depends only on the tile, so that the result does not depend on the block that computes
// it.
constexpr float kImageScale = 64.0f;
constexpr float kWindowLow = 0.5f, kWindowHigh = 32768.0f;

struct Split {
  __half hi, lo;
};

__device__ inline Split split(float scaled) {
  const __half hi = __float2half_rn(scaled);
  return {hi, __float2half_rn(scaled - __half2float(hi))};
}

// Splits like the function above, but multiplies lo by 2^11, to the magnitude of hi: very small halves are subnormal,
// and lose bits. Products with one low part then have separate accumulators, which are scaled back at the end. So a
// value of 2^-12 or more loses at most one unit in its 24th bit, and values of more different magnitudes can have the
// same scale.
constexpr float kLowScale = 2048.0f;
__device__ inline Split split_enlarged(float scaled) {
  const __half hi = __float2half_rn(scaled);
  return {hi, __float2half_rn((scaled - __half2float(hi)) * kLowScale)};
}

// Returns the smallest nonzero scaled magnitude that a value in a sum of n products may have, if it is split by
// split_enlarged. Below 2^-12 a value loses bits. For 64 or more products smaller values are allowed, such that they
// lose up to sqrt(n) / 4 units of 2^-24, of the sqrt(n) units that the bound allows (docs/precision.md). With sqrt(n) /
// 2, some sums of pixels of very different magnitudes reached 1.04 to 1.3 times the bound; with sqrt(n) / 4 for fewer
// products, some sums of 50 products reached 1.04 times the bound.
__host__ __device__ inline float min_scaled(float n) { return 0x1p-12f / (n >= 64.0f ? 0.25f * sqrtf(n) : 1.0f); }
// Returns an integer that increases with |v|, but is largest for zero. So the minimum over many values ignores zeros.
__device__ inline uint32_t nonzero_bits(float v) { return 2 * __float_as_uint(v) - 1; }

// Return two halves as one 32-bit word; the first is in the low 16 bits.
__device__ inline uint32_t bits(__half2 two) { return reinterpret_cast<const uint32_t&>(two); }
__device__ inline uint32_t pack(__half low, __half high) {
  return static_cast<uint32_t>(__half_as_ushort(low)) | static_cast<uint32_t>(__half_as_ushort(high)) << 16;
}

// Four neighbouring values, which one instruction loads.
template <typename X>
struct alignas(4 * sizeof(X)) Four {
  X at[4];
};

// Two values, each split as by split_enlarged: a word of both high parts and a word of both low parts.
struct SplitPair {
  uint32_t hi, lo;
};

__device__ inline SplitPair split_pair(float a, float b) {
  const __half2 hi = __floats2half2_rn(a, b);
  return {bits(hi), bits(__floats2half2_rn((a - __low2float(hi)) * kLowScale, (b - __high2float(hi)) * kLowScale))};
}

// Writes two neighbouring pixels, rounded to halves, as a word to *hi and, if kResidue, their rounding errors as a word
// to *lo. Returns whether the first pixel and, if kBoth, also the second pixel are exact in half precision. (Without
// kBoth, the second pixel is checked as the first pixel of the next word.)
template <bool kResidue, bool kEnlarged, bool kBoth = false>
__device__ inline bool round_pair(float here, float next, uint32_t* hi, uint32_t* lo) {
  constexpr float kSize = kEnlarged ? kLowScale : 1.0f;  // scale of lo, as in split_enlarged and split
  const __half2 rounded = __floats2half2_rn(here, next);
  const float rest = here - __low2float(rounded);  // nonzero for infinities and NaN too
  *hi = bits(rounded);
  if (kResidue) *lo = pack(__float2half_rn(rest * kSize), __float2half_rn((next - __high2float(rounded)) * kSize));
  return rest == 0.0f && (!kBoth || next - __high2float(rounded) == 0.0f);
}

// Returns the power of two that scales `largest` into [2^13, 2^14), clamped to [2^-60, 2^100]; 1 for zero. The lower
// limit keeps the product of the inverses of two scales finite. (With 2^-78, outputs that are sums of zeros were NaN
// where the weights and other pixels were 1e26.) The upper limit keeps the scale finite and its inverse a normal
// number.
__device__ inline float scale_for(float largest) {
  if (!(largest > 0.0f)) return 1.0f;
  const int exponent = static_cast<int>(__float_as_uint(largest) >> 23);  // of `largest`, plus 127
  return __uint_as_float(static_cast<uint32_t>(127 + max(-60, min(100, 13 + 127 - exponent))) << 23);
}
// Returns 1 / scale. `scale` must be a power of two.
__device__ inline float inverse_power(float scale) { return __uint_as_float(0x7f000000u - __float_as_uint(scale)); }
// Values of this magnitude or more exceed the range of scale_for, even with its smallest scale.
constexpr float kLargestScaled = 0x1p74f;

}  // namespace fops
