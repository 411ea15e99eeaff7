// float32 in bfloat16 parts: x = x1 + x2 + x3 exactly, each part rounded to nearest and so at most 2^-8 of the one
// before. A product of two numbers is then, but for 2^-24 of itself, the six products x1 w1, x1 w2, x2 w1, x1 w3, x2 w2
// and x3 w1.
//
// Here a line is 16 numbers of 32 bits, whatever the vectors of the instruction set: a row of a tile.
#pragma once

#include <cstdint>
#include <cstring>

#include "base/simd.h"

#if defined(__AVX512F__)
#include <immintrin.h>
#endif

namespace fops {
namespace FOPS_ISA {

constexpr int kLine = 16;
typedef uint32_t Line __attribute__((vector_size(64), may_alias));
typedef float FloatLine __attribute__((vector_size(64), may_alias));
typedef uint32_t UnalignedLine __attribute__((vector_size(64), aligned(4), may_alias));
typedef uint8_t ByteLine __attribute__((vector_size(16), aligned(1), may_alias));

static inline FloatLine load_line(const float* x) {
  return reinterpret_cast<FloatLine>(static_cast<Line>(*reinterpret_cast<const UnalignedLine*>(x)));
}
static inline FloatLine load_line(const uint8_t* x) {
  return __builtin_convertvector(*reinterpret_cast<const ByteLine*>(x), FloatLine);
}

// The first `count` numbers, 1 to 16; zeros behind them.
template <typename T>
static inline FloatLine load_line(const T* x, int64_t count) {
  if (count >= kLine) return load_line(x);
  T some[kLine] = {};
  memcpy(some, x, count * sizeof(T));
  return load_line(some);
}

// The first `count` numbers of a line.
static inline void store_line(float* y, FloatLine x, int64_t count) {
#if defined(__AVX512F__)
  _mm512_mask_storeu_ps(y, static_cast<__mmask16>((1u << count) - 1), reinterpret_cast<__m512>(x));
#else
  memcpy(y, &x, count * sizeof(float));
#endif
}

// Magnitudes between these, and zeros, take part: what is smaller or larger could leave the range of a part, of a
// product of parts or of a sum (2^-63 the smallest part, 2^-126 the smallest product; 2^102 the largest).
constexpr uint32_t kSmallest = (127u - 40) << 23, kLargest = (127u + 51) << 23;

// All of `count` floats take part; false for infinities and NaN.
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

// The parts of 16 pairs, a's in the lower half of each number, b's in the upper one.
struct Parts {
  Line first, second, third;
};

static inline Parts split(FloatLine a, FloatLine b) {
  // The part that the first 8 digits make; the bits of a float32 whose lower half is zero.
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

// Exchanges lanes that differ in bit `s` of their number with lines that do.
template <int s>
static inline void exchange(Line (&x)[kLine]) {
  Line low, high;
  for (int i = 0; i < kLine; ++i) {
    low[i] = i & s ? kLine + i - s : i;
    high[i] = i & s ? kLine + i : i + s;
  }
#pragma GCC unroll 16
  for (int i = 0; i < kLine; ++i)
    if (!(i & s)) {
      const Line a = x[i], b = x[i + s];
      x[i] = __builtin_shuffle(a, b, low);
      x[i + s] = __builtin_shuffle(a, b, high);
    }
}

static inline void transpose(Line (&x)[kLine]) {
  exchange<8>(x);
  exchange<4>(x);
  exchange<2>(x);
  exchange<1>(x);
}

}  // namespace FOPS_ISA
}  // namespace fops
