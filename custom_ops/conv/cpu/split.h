// Splits a float32 into bfloat16 parts: x = x1 + x2 + x3 exactly, where each part is rounded to nearest and is
// therefore at most 2^-8 of the previous part. The product of two numbers x and w is then, to within a relative 2^-24,
// the sum of the six products x1 w1, x1 w2, x2 w1, x1 w3, x2 w2 and x3 w1.
#pragma once

#include <cstdint>
#include <cstring>

#include "base/simd.h"
#include "conv/cpu/lines.h"

#if defined(__AVX512F__)
#include <immintrin.h>
#endif

namespace fops {
namespace FOPS_ISA {

// Zeros, and magnitudes between these two limits, can be split. Smaller or larger magnitudes could leave the range of a
// part, of a product of parts or of a sum (the smallest part is 2^-63, the smallest product 2^-126, the largest sum
// 2^102).
constexpr uint32_t kSmallest = (127u - 40) << 23, kLargest = (127u + 51) << 23;

// Whether all of `count` floats can be split; false for infinities and NaN.
static inline bool splittable(const float* x, int64_t count) {
  Line outside = {};
  for (int64_t i = 0; i < count; i += kLine) {
    const Line magnitude = reinterpret_cast<Line>(load_line(x + i, count - i)) & 0x7FFFFFFFu;
    outside |= reinterpret_cast<Line>((magnitude - kSmallest >= kLargest - kSmallest) & (magnitude != 0));
  }
  uint32_t any = 0;
  for (int lane = 0; lane < kLine; ++lane) any |= outside[lane];
  return !any;
}
static inline bool splittable(const uint8_t*, int64_t) { return true; }

// The parts of 16 pairs (a, b): a's part is in the lower half of each number, b's part in the upper half.
struct Parts {
  Line first, second, third;
};

static inline Parts split(FloatLine a, FloatLine b) {
  // The part of the first 8 digits: the bits of a float32 whose lower half is zero.
  const auto part = [](FloatLine x) { return (reinterpret_cast<Line>(x) + 0x8000u) & 0xFFFF0000u; };
  const auto pair = [](Line a, Line b) { return (a >> 16) | b; };
  Parts p;
  const Line a1 = part(a), b1 = part(b);
  p.first = pair(a1, b1);
  a -= reinterpret_cast<FloatLine>(a1);
  b -= reinterpret_cast<FloatLine>(b1);
  const Line a2 = part(a), b2 = part(b);
  p.second = pair(a2, b2);
  a -= reinterpret_cast<FloatLine>(a2);
  b -= reinterpret_cast<FloatLine>(b2);
  p.third = pair(reinterpret_cast<Line>(a), reinterpret_cast<Line>(b));  // at most 8 digits are left
  return p;
}

}  // namespace FOPS_ISA
}  // namespace fops
