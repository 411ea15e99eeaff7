// The epilogue of a stage: 2x2 max pool, then tanh, which so sees a quarter of the values.
#pragma once

#include <cstring>

#include "tanh_simd.h"

namespace fops {
namespace FOPS_ISA {

// NaN wins, as in MXNet's pooling.
static inline float larger(float a, float b) { return a > b || a != a ? a : b; }

// The largest of each 2x2 window: from rows of W floats, an even number of them or one too many, to rows of W/2.
static inline void pool(const float* x, int64_t rows, int64_t W, float* y) {
  for (int64_t h = 0; h < rows / 2; ++h, x += 2 * W, y += W / 2)
    for (int64_t w = 0; w < W / 2; ++w)
      y[w] = larger(larger(x[2 * w], x[2 * w + 1]), larger(x[W + 2 * w], x[W + 2 * w + 1]));
}

}  // namespace FOPS_ISA
}  // namespace fops
