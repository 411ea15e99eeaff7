// The convolution of shifted_simd.cpp for a band of rows of one image, for whoever drives it: the operator there, the
// fused stage in fused/conv_simd.cpp. The head of shifted_simd.cpp explains it.
#pragma once

#include <algorithm>
#include <cstring>
#include <utility>

#include "simd.h"
#include "variant.h"

namespace fops {
namespace FOPS_ISA {

#if defined(__AVX512F__)
constexpr int kRows = 6, kVectors = 4;
#else
constexpr int kRows = 4, kVectors = 3;
#endif
constexpr int64_t kSlack = kVectors * kLanes;  // floats behind S that the last vector may read

// What one band of output rows of one image needs.
struct Band {
  int64_t C, K, M;
  int64_t plane;      // floats from one S[c][q] to the next
  int64_t W_out;      // floats from one p to the next
  int64_t depth;      // C*K*K, floats from one filter to the next
  int64_t y_stride;   // floats from one filter's output to the next
};

// rows x vectors outputs; `count` of the floats in the last vector are valid.
template <int rows, int vectors>
static void micro_kernel(const Band& b, const float* S, const float* k, float* y, int64_t count) {
  Vector acc[rows][vectors] = {};
  for (int64_t c = 0; c < b.C; ++c)
    for (int64_t p = 0; p < b.K; ++p) {
      const float* row = S + c * b.K * b.plane + p * b.W_out;
      for (int64_t q = 0; q < b.K; ++q, row += b.plane, ++k) {
        Vector x[vectors];
        for (int v = 0; v < vectors; ++v) x[v] = load(row + v * kLanes);
        for (int r = 0; r < rows; ++r) {
          const float weight = k[r * b.depth];
          for (int v = 0; v < vectors; ++v) acc[r][v] += x[v] * weight;
        }
      }
    }
  for (int r = 0; r < rows; ++r) {
    float* out = y + r * b.y_stride;
    for (int v = 0; v < vectors - 1; ++v) store(out + v * kLanes, acc[r][v]);
    memcpy(out + (vectors - 1) * kLanes, &acc[r][vectors - 1], count * sizeof(float));
  }
}

using MicroKernel = void (*)(const Band&, const float*, const float*, float*, int64_t);

template <int rows, int... v>
static MicroKernel pick(int vectors, std::integer_sequence<int, v...>) {
  constexpr MicroKernel by_vectors[] = {micro_kernel<rows, v + 1>...};
  return by_vectors[vectors - 1];
}

template <int... r>
static MicroKernel pick(int rows, int vectors, std::integer_sequence<int, r...>) {
  const MicroKernel by_rows[] = {pick<r + 1>(vectors, std::make_integer_sequence<int, kVectors>())...};
  return by_rows[rows - 1];
}

// S for `rows` image rows that start at x (one image, C channels of H x W).
template <typename T>
static void shift(const fops_conv& conv, const T* x, int64_t rows, float* S, int64_t plane) {
  const int64_t W_out = out_w(conv);
  for (int64_t c = 0; c < conv.C; ++c)
    for (int64_t q = 0; q < conv.K; ++q) {
      const T* from = x + c * conv.H * conv.W + q;
      float* to = S + (c * conv.K + q) * plane;
      for (int64_t h = 0; h < rows; ++h, from += conv.W, to += W_out)
        for (int64_t w = 0; w < W_out; ++w) to[w] = static_cast<float>(from[w]);
    }
}

// Filters in blocks of nearly equal size: 50 as 6 6 6 6 6 5 5 5 5, since a block of 2 would stall on latency.
static inline int64_t filter_blocks(const Band& b) { return (b.M + kRows - 1) / kRows; }
static inline int64_t block_start(const Band& b, int64_t block) { return b.M * block / filter_blocks(b); }

// y for output positions [n, end), end - n <= kSlack, of the filters of one block; y points at its first filter.
static inline void multiply_block(const Band& b, const float* S, const float* k, float* y, int64_t block, int64_t n,
                                  int64_t end) {
  const int64_t m = block_start(b, block);
  const int vectors = static_cast<int>((end - n + kLanes - 1) / kLanes);
  pick(static_cast<int>(block_start(b, block + 1) - m), vectors, std::make_integer_sequence<int, kRows>())(
      b, S + n, k + m * b.depth, y + n, end - n - (vectors - 1) * kLanes);
}

}  // namespace FOPS_ISA
}  // namespace fops
