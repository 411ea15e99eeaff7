// The epilogue of a stage: max pool, then tanh or ReLU on the values that remain.
#pragma once

#include <algorithm>
#include <cstring>

#include "net/cpu/tanh_simd.h"
#include "net/plan.h"

namespace fops::FOPS_ISA {

// Returns the larger value, or NaN if either is NaN: a != a finds a NaN in a, and a > b selects b if b is NaN.
static inline Vector larger_or_nan(Vector a, Vector b) { return a != a ? a : (a > b ? a : b); }
static inline float larger_or_nan(float a, float b) { return a > b || a != a ? a : b; }

// Returns the maxima of neighbours: in the sequence of the lanes of a and then of b, lane i of the result is the larger of
// numbers 2i and 2i+1.
static inline Vector pairs(Vector a, Vector b) {
#if defined(__AVX512F__)
  const IntVector even = {0, 2, 4, 6, 8, 10, 12, 14, 16, 18, 20, 22, 24, 26, 28, 30};
#elif defined(__AVX2__)
  const IntVector even = {0, 2, 4, 6, 8, 10, 12, 14};
#else
  const IntVector even = {0, 2, 4, 6};
#endif
  return larger_or_nan(__builtin_shuffle(a, b, even), __builtin_shuffle(a, b, even + 1));
}

static inline int64_t pairs_scratch(int64_t rows, int64_t W) { return rows / 2 * W + 4 * kLanes; }

// Computes the largest value of each 2x2 window of x, which has `rows` rows of W floats; y gets rows/2 rows of W/2 floats. A
// last odd row or column is dropped, and a window with a NaN gives NaN. Each pair of rows is reduced first, so that the
// shuffles, which are more expensive, process only half of the values. The function reads x, and writes y, up to kLanes - 1
// floats beyond the end.
static inline void pool_pairs(const float* x, int64_t rows, int64_t W, float* scratch, float* y) {
  const int64_t half = W / 2;
  for (int64_t h = 0; h < rows / 2; ++h) {
    const float *upper = x + 2 * h * W, *lower = upper + W;
    for (int64_t i = 0; i < W; i += kLanes) store(scratch + h * W + i, larger_or_nan(load(upper + i), load(lower + i)));
  }
  const auto neighbours = [](const float* from, int64_t count, float* to) {
    for (int64_t i = 0; i < count; i += kLanes) store(to + i, pairs(load(from + 2 * i), load(from + 2 * i + kLanes)));
  };
  if (W % 2 == 0)  // no column is dropped, so all rows are processed as one
    neighbours(scratch, rows / 2 * half, y);
  else
    for (int64_t h = 0; h < rows / 2; ++h) neighbours(scratch + h * W, half, y + h * half);
}

static inline int64_t windows_scratch(const Pool& pool, int64_t W) { return 2 * (W + pool.size + 2 * kLanes); }

// Computes the largest value of each window of x, which has `rows` rows of W floats; y gets rows_out rows of W_out floats.
// The windows have any size and stride, and end at the lower and right border. For a row of windows, the function first
// computes the largest value of each column, and then the largest of each `size` neighbouring columns. It does so for all
// positions, in whole vectors, although only every stride-th result goes to y. A window with a NaN gives NaN.
static inline void pool_windows(const Pool& pool, const float* x, int64_t rows, int64_t W, float* scratch, float* y,
                                int64_t rows_out, int64_t W_out) {
  float *columns = scratch, *neighbours = scratch + W + pool.size + 2 * kLanes;
  std::fill(columns + W, neighbours, -INFINITY);  // so that values right of the border do not count
  for (int64_t h = 0; h < rows_out; ++h) {
    const float* top = x + h * pool.stride * W;
    const int64_t height = std::min(pool.size, rows - h * pool.stride);
    int64_t w = 0;
    for (; w + kLanes <= W; w += kLanes) {
      Vector largest = load(top + w);
      for (int64_t p = 1; p < height; ++p) largest = larger_or_nan(largest, load(top + p * W + w));
      store(columns + w, largest);
    }
    for (; w < W; ++w) {
      float largest = top[w];
      for (int64_t p = 1; p < height; ++p) largest = larger_or_nan(largest, top[p * W + w]);
      columns[w] = largest;
    }
    for (int64_t i = 0; i <= (W_out - 1) * pool.stride; i += kLanes) {
      Vector largest = load(columns + i);
      for (int64_t q = 1; q < pool.size; ++q) largest = larger_or_nan(largest, load(columns + i + q));
      store(neighbours + i, largest);
    }
    for (int64_t i = 0; i < W_out; ++i) *y++ = neighbours[i * pool.stride];
  }
}

// y[i] = max(x[i], 0), or NaN if x[i] is NaN; x and y may be the same array.
static inline void relu(int64_t count, const float* x, float* y) {
  int64_t i = 0;
  for (; i + kLanes <= count; i += kLanes) {
    const Vector v = load(x + i);
    store(y + i, v < 0.0f ? Vector{} : v);
  }
  for (; i < count; ++i) y[i] = x[i] < 0.0f ? 0.0f : x[i];
}

// y[i] = the activation of x[i]; x and y may be the same array.
static inline void activate(Activation activation, int64_t count, const float* x, float* y) {
  switch (activation) {
    case Activation::tanh: tanh(count, x, y); break;
    case Activation::relu: relu(count, x, y); break;
    default:
      if (x != y) memcpy(y, x, count * sizeof(float));
  }
}

}  // namespace fops::FOPS_ISA
