// tanh at float32 grade.
//
// From |x| = 0.55 on tanh(x) = 1 - 2 / (e^2x + 1): the error of the two approximate instructions, exp2 and reciprocal,
// shrinks with the second term, which is at most half of the first. Below, where that would cancel, an odd polynomial
// of degree 9 (relative error 0.62 * 2^-24, minimax). Both are computed and one is chosen: 16 instructions without a
// branch, where neighbouring values seldom agree on one.
// Largest error over all floats: 2.02 ulp, near 0.568.
#pragma once

#include <cuda_runtime.h>

namespace fops {

// tanh(x) * kScale, for a power of two: scaled before it rounds, which costs nothing.
template <int kScale = 1>
__device__ inline float tanh_scaled(float x) {
  float e, r;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(e) : "f"(fabsf(x) * 2.885390082f));  // 2 log2(e)
  asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(r) : "f"(e + 1.0f));
  const float large = copysignf(fmaf(r, -2.0f * kScale, 1.0f * kScale), x);
  const float u = x * x;
  constexpr float k = kScale;
  const float p = fmaf(fmaf(fmaf(0.0164374821f * k, u, -0.0526717529f * k), u, 0.133207247f * k), u, -0.333329469f * k);
  const float small = x * fmaf(u, p, k);
  return fabsf(x) < 0.55f ? small : large;
}

}  // namespace fops
