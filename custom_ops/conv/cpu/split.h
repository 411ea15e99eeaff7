// float32 in bfloat16 parts: x = x1 + x2 + x3 exactly, each part rounded to nearest and so at most 2^-8 of the one
// before. A product of two numbers is then, but for 2^-24 of itself, the six products x1 w1, x1 w2, x2 w1, x1 w3, x2 w2
// and x3 w1.
#pragma once

#include <cstring>

#include "base/simd.h"

namespace fops {
namespace FOPS_ISA {

typedef uint32_t Bits __attribute__((vector_size(kVectorBytes), may_alias));
typedef uint32_t UnalignedBits __attribute__((vector_size(kVectorBytes), aligned(4), may_alias));
typedef uint8_t Bytes __attribute__((vector_size(kLanes), aligned(1), may_alias));

// Magnitudes between these, and zeros, take part: what is smaller or larger could leave the range of a part, of a
// product of parts or of a sum (2^-63 the smallest part, 2^-126 the smallest product; 2^100 the largest).
constexpr uint32_t kSmallest = (127u - 40) << 23, kLargest = (127u + 50) << 23;

static inline Vector widen(const float* x) { return load(x); }
static inline Vector widen(const uint8_t* x) {
  return __builtin_convertvector(*reinterpret_cast<const Bytes*>(x), Vector);
}

// All of `count` floats take part; false for infinities and NaN.
static inline bool splittable(const float* x, int64_t count) {
  Bits outside = {};
  const auto look = [&](Bits bits) {
    const Bits magnitude = bits & 0x7FFFFFFFu;
    outside |= reinterpret_cast<Bits>((magnitude - kSmallest > kLargest - kSmallest) & (magnitude != 0));
  };
  int64_t i = 0;
  for (; i + kLanes <= count; i += kLanes) look(*reinterpret_cast<const UnalignedBits*>(x + i));
  if (i < count) {
    float rest[kLanes] = {};
    memcpy(rest, x + i, (count - i) * sizeof(float));
    look(*reinterpret_cast<const UnalignedBits*>(rest));
  }
  uint32_t any = 0;
  for (int lane = 0; lane < kLanes; ++lane) any |= outside[lane];
  return !any;
}
static inline bool splittable(const uint8_t*, int64_t) { return true; }

// The part of x that its first 8 digits make, rounded to nearest; the bits of a float32 whose lower half is zero.
static inline Bits first_part(Vector x) { return (reinterpret_cast<Bits>(x) + 0x8000u) & 0xFFFF0000u; }

// Pairs of the parts of a and b, a's in the lower half: the first to pairs[0] and on, the second to pairs[second], the
// third to pairs[third].
static inline void split_pair(Vector a, Vector b, uint32_t* pairs, int64_t second, int64_t third) {
  const auto pair = [](Bits a, Bits b, uint32_t* to) { *reinterpret_cast<UnalignedBits*>(to) = (a >> 16) | b; };
  const auto part = [&](uint32_t* to) {
    const Bits a_bits = first_part(a), b_bits = first_part(b);
    pair(a_bits, b_bits, to);
    a -= reinterpret_cast<Vector>(a_bits);
    b -= reinterpret_cast<Vector>(b_bits);
  };
  part(pairs);
  part(pairs + second);
  pair(reinterpret_cast<Bits>(a), reinterpret_cast<Bits>(b), pairs + third);  // 8 digits at most are left
}

}  // namespace FOPS_ISA
}  // namespace fops
