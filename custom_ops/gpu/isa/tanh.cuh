// tanh with float32 accuracy.
//
// For |x| >= 0.55, tanh(|x|) = 1 - 2 / (e^(2|x|) + 1). The error of the two approximate instructions, exp2 and
// reciprocal, matters little there, because the second term is at most half of the first. For smaller |x| this formula
// would cancel, so an odd polynomial of degree 9 is used (minimax; relative error 0.62 * 2^-24). Both formulas are
// always computed, and one result is selected, in 16 instructions without a branch: neighbouring values often need
// different formulas. The largest error over all floats is 2.02 ulp, near 0.568.
#pragma once

#include <cuda_runtime.h>

namespace fops {

// 2 log2(e): e^(2x) = 2^(kTanhArgument x). Kernels that can include this factor in their weights save a multiplication.
constexpr double kTanhArgument = 2.885390081777926815;

// Return 2^x and 1 / x, respectively, by approximate instructions that treat subnormals as zero.
__device__ inline float exp2_approximate(float x) {
  float y;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
}
__device__ inline float reciprocal_approximate(float x) {
  float y;
  asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
}

// Returns tanh(x) * kScale for v = kTanhArgument * x. kScale is a power of two, which is included in the constants and
// therefore costs nothing.
template <int kScale = 1>
__device__ inline float tanh_of_argument(float v) {
  const float r = reciprocal_approximate(exp2_approximate(fabsf(v)) + 1.0f);
  const float large = copysignf(fmaf(r, -2.0f * kScale, 1.0f * kScale), v);
  constexpr double a = 1.0 / kTanhArgument, k = kScale * a;
  constexpr float c0 = static_cast<float>(-0.333329469 * k * a * a);
  constexpr float c1 = static_cast<float>(0.133207247 * k * a * a * a * a);
  constexpr float c2 = static_cast<float>(-0.0526717529 * k * a * a * a * a * a * a);
  constexpr float c3 = static_cast<float>(0.0164374821 * k * a * a * a * a * a * a * a * a);
  const float u = v * v;
  const float small = v * fmaf(u, fmaf(fmaf(fmaf(c3, u, c2), u, c1), u, c0), static_cast<float>(k));
  return fabsf(v) < static_cast<float>(0.55 * kTanhArgument) ? small : large;
}

__device__ inline float tanh_scaled(float x) {
  const float r = reciprocal_approximate(exp2_approximate(fabsf(x) * static_cast<float>(kTanhArgument)) + 1.0f);
  const float large = copysignf(fmaf(r, -2.0f, 1.0f), x), u = x * x;
  const float p = fmaf(fmaf(fmaf(0.0164374821f, u, -0.0526717529f), u, 0.133207247f), u, -0.333329469f);
  return fabsf(x) < 0.55f ? fmaf(x * u, p, x) : large;
}

}  // namespace fops
