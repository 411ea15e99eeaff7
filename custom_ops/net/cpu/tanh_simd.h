// tanh of a vector, at most 4 ulp from the exact value (at most 2.42 ulp over all 2^32 floats).
//
// With e = exp(2|x|) - 1, tanh |x| = e / (e + 2). No digits are lost for small x if e is computed directly, not from
// exp(2|x|). For 2|x| = n ln 2 + r, |r| <= ln 2 / 2, e is 2^n (exp(r) - 1) + (2^n - 1), and exp(r) - 1 is computed by
// its Taylor polynomial: the first omitted term, r^8/8!, is 1.5e-8 of r. Beyond |x| = 9.02 the nearest float is 1.
#pragma once

#include "base/simd.h"

namespace fops {
namespace FOPS_ISA {

static inline Vector tanh(Vector x) {
  const IntVector sign = reinterpret_cast<IntVector>(x) & INT32_MIN;
  Vector a = reinterpret_cast<Vector>(reinterpret_cast<IntVector>(x) ^ sign);
  a = a > 9.02f ? Vector{} + 9.02f : a;  // false for NaN, which therefore stays NaN
  const Vector t = a + a;

  // Adding 1.5 * 2^23 leaves no fraction bits: n is rounded, and is in the low bits of the sum.
  const float magic = 12582912.0f;
  const Vector shifted = t * 1.44269504f + magic;
  const Vector n = shifted - magic;
  const IntVector power = (reinterpret_cast<IntVector>(shifted) + (127 - 0x4B400000)) << 23;
  const Vector two_n = reinterpret_cast<Vector>(power);

  // ln 2 is in two parts; the first has 9 bits, so that its product with n is exact even without fused multiply-add.
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

// y[i] = tanh(x[i]); x and y may be the same.
static inline void tanh(int64_t count, const float* x, float* y) {
  int64_t i = 0;
  for (; i + kLanes <= count; i += kLanes) store(y + i, tanh(load(x + i)));
  if (i == count) return;
  float rest[kLanes] = {};
  for (int64_t j = i; j < count; ++j) rest[j - i] = x[j];
  store(rest, tanh(load(rest)));
  for (int64_t j = i; j < count; ++j) y[j] = rest[j - i];
}

}  // namespace FOPS_ISA
}  // namespace fops
