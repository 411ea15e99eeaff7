// The epilogue of a stage: 2x2 max pool, then tanh, which so sees a quarter of the values.
#pragma once

#include <algorithm>

#include "net/cpu/tanh_simd.h"

namespace fops {
namespace FOPS_ISA {

static inline Vector larger(Vector a, Vector b) { return a > b ? a : b; }

// Neighbours' maxima: lane i of the result is the larger of lanes 2i and 2i+1 of a followed by b.
static inline Vector pairs(Vector a, Vector b) {
#if defined(__AVX512F__)
  const IntVector even = {0, 2, 4, 6, 8, 10, 12, 14, 16, 18, 20, 22, 24, 26, 28, 30};
#elif defined(__AVX2__)
  const IntVector even = {0, 2, 4, 6, 8, 10, 12, 14};
#else
  const IntVector even = {0, 2, 4, 6};
#endif
  return larger(__builtin_shuffle(a, b, even), __builtin_shuffle(a, b, even + 1));
}

// Floats that `pool` needs beside its input.
static inline int64_t pool_scratch(int64_t rows, int64_t W) { return rows * (W / 2) + 2 * kLanes; }

// The largest of each 2x2 window, from rows of W floats to rows/2 rows of W/2; a last odd row or column is dropped.
// x and y are read and written up to 2 kLanes floats beyond their end.
static inline void pool(const float* x, int64_t rows, int64_t W, float* scratch, float* y) {
  const int64_t half = W / 2;
  if (W % 2 == 0) {  // neighbours of all rows in one go
    for (int64_t i = 0; i < rows * half; i += kLanes)
      store(scratch + i, pairs(load(x + 2 * i), load(x + 2 * i + kLanes)));
  } else {
    for (int64_t h = 0; h < rows; ++h)
      for (int64_t i = 0; i < half; i += kLanes)
        store(scratch + h * half + i, pairs(load(x + h * W + 2 * i), load(x + h * W + 2 * i + kLanes)));
  }
  for (int64_t h = 0; h < rows / 2; ++h) {
    const float *upper = scratch + 2 * h * half, *lower = upper + half;
    for (int64_t i = 0; i < half; i += kLanes) store(y + h * half + i, larger(load(upper + i), load(lower + i)));
  }
}

}  // namespace FOPS_ISA
}  // namespace fops
