// A line is 16 numbers of 32 bits, whatever the instruction set: a row of an AMX tile, or the weights of 16 filters.
#pragma once

#include <cstdint>
#include <cstring>

#include "base/simd.h"

namespace fops::FOPS_ISA {

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

// Loads `count` numbers, 1 to 16, and fills the rest of the line with zeros.
template <typename T>
static inline FloatLine load_line(const T* x, int64_t count) {
  if (count >= kLine) return load_line(x);
  T some[kLine] = {};
  memcpy(some, x, count * sizeof(T));
  return load_line(some);
}

static inline void store_line(float* y, FloatLine x, int64_t count) {
#if defined(__AVX512F__)
  _mm512_mask_storeu_ps(y, static_cast<__mmask16>((1u << count) - 1), reinterpret_cast<__m512>(x));
#else
  memcpy(y, &x, count * sizeof(float));
#endif
}

// One step of the transposition. For all i and j without bit `s`, exchanges lane j + s of line i with lane j of line i + s.
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

// Exchanges lane j of line i with lane i of line j, for all i and j.
static inline void transpose(Line (&x)[kLine]) {
  exchange<8>(x);
  exchange<4>(x);
  exchange<2>(x);
  exchange<1>(x);
}

}  // namespace fops::FOPS_ISA
