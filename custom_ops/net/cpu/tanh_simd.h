// Computes tanh of a vector. The error is at most 4 ulp; the largest measured over all 2^32 floats is 2.42 ulp.
//
// With e = exp(2|x|) - 1, tanh |x| = e / (e + 2). So that no digits are lost for small x, e is computed without first
// computing exp(2|x|): for 2|x| = n ln 2 + r, |r| <= ln 2 / 2, e is 2^n (exp(r) - 1) + (2^n - 1), and exp(r) - 1 is
// computed with its Taylor polynomial. The first omitted term, r^8/8!, is at most 1.5e-8 of r. Beyond |x| = 9.02 the
// nearest float is 1.
#pragma once

#include "base/simd.h"

namespace fops::FOPS_ISA {

static inline Vector tanh(Vector x) {
  const IntVector sign = reinterpret_cast<IntVector>(x) & INT32_MIN;
  Vector a = reinterpret_cast<Vector>(reinterpret_cast<IntVector>(x) ^ sign);
  a = a > 9.02f ? Vector{} + 9.02f : a;  // the comparison is false for NaN, so NaN stays NaN
  const Vector t = a + a;

  // The sum with 1.5 * 2^23 has no fraction bits, so t / ln 2 is rounded to the integer n, which is in the sum's low bits.
  const float magic = 12582912.0f;
  const Vector shifted = t * 1.44269504f + magic;
  const Vector n = shifted - magic;
  const IntVector power = (reinterpret_cast<IntVector>(shifted) + (127 - 0x4B400000)) << 23;
  const Vector two_n = reinterpret_cast<Vector>(power);

  // ln 2 is divided into two parts. The first has 9 bits, so that its product with n is exact even without fused
  // multiply-add.
  const Vector r = (t - n * 0.693359375f) + n * 2.12194440e-4f;
  Vector p = r * (1.0f / 5040) + 1.0f / 720;
  p = p * r + 1.0f / 120;
  p = p * r + 1.0f / 24;
  p = p * r + 1.0f / 6;
  p = p * r + 0.5f;
  p = p * (r * r) + r;

  const Vector e = p * two_n + (two_n - 1.0f);
  const Vector y = e / (e + 2.0f);
  return reinterpret_cast<Vector>(reinterpret_cast<IntVector>(y) | sign);
}

// y[i] = tanh(x[i]); x and y may be the same array.
static inline void tanh(int64_t count, const float* x, float* y) {
  int64_t i = 0;
  for (; i + kLanes <= count; i += kLanes) store(y + i, tanh(load(x + i)));
  if (i == count) return;
  float rest[kLanes] = {};
  for (int64_t j = i; j < count; ++j) rest[j - i] = x[j];
  store(rest, tanh(load(rest)));
  for (int64_t j = i; j < count; ++j) y[j] = rest[j - i];
}

}  // namespace fops::FOPS_ISA
