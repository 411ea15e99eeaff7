// Splits a float32 x into three bfloat16 parts: x = x1 + x2 + x3 exactly. x1 and x2 are rounded to nearest, so each part is
// at most 2^-8 of the previous one. The product of two numbers x and w is then the sum of the six products x1 w1, x1 w2,
// x2 w1, x1 w3, x2 w2 and x3 w1, with a relative error of about 2^-24.
#pragma once

#include <cstdint>

#include "conv/cpu/lines.h"

namespace fops::FOPS_ISA {

// Zeros, and numbers whose magnitude is in [2^-40, 2^51), can be split; these constants are the bits of the two limits.
// With other magnitudes, a part, a product of parts or a sum could leave the range of normal numbers.
constexpr uint32_t kSmallest = (127u - 40) << 23, kLargest = (127u + 51) << 23;

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

// The parts of 16 pairs (a, b). In each number of 32 bits, the lower 16 bits are a part of a, the upper 16 bits one of b.
struct Parts {
  Line first, second, third;
};

static inline Parts split(FloatLine a, FloatLine b) {
  // Rounds to bfloat16, 8 binary digits: the bits of a float32 whose lower 16 bits are zero.
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
  p.third = pair(reinterpret_cast<Line>(a), reinterpret_cast<Line>(b));  // needs no rounding: at most 8 digits are left
  return p;
}

}  // namespace fops::FOPS_ISA
