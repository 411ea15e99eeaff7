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
  bool far;           // y is in no cache: its lines are called for while the sums are made
};

// rows x vectors outputs; `count` of the floats in the last vector are valid. A K that is known unrolls the inner
// loops: 8% for the course's 5x5 filters. 0 is any.
template <int rows, int vectors, int kK>
static void micro_kernel(const Band& b, const float* S, const float* k, float* y, int64_t count) {
  const int64_t K = kK ? kK : b.K;
  Vector acc[rows][vectors];  // zeroed one by one: "= {}" clears them in memory first
  for (int r = 0; r < rows; ++r)
    for (int v = 0; v < vectors; ++v) {
      acc[r][v] = Vector{};
      if (b.far) __builtin_prefetch(y + r * b.y_stride + v * kLanes, 1);
    }
  for (int64_t c = 0; c < b.C; ++c)
    for (int64_t p = 0; p < K; ++p) {
      const float* row = S + c * K * b.plane + p * b.W_out;
      for (int64_t q = 0; q < K; ++q, row += b.plane, ++k) {
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
    if (count == kLanes) {
      store(out + (vectors - 1) * kLanes, acc[r][vectors - 1]);
    } else {
      const Vector last = acc[r][vectors - 1];  // a copy: whose address is taken does not stay in a register
      memcpy(out + (vectors - 1) * kLanes, &last, count * sizeof(float));
    }
  }
}

using MicroKernel = void (*)(const Band&, const float*, const float*, float*, int64_t);

// micro_kernel<row + 1, vector + 1> of every size: i is row * kVectors + vector.
template <int kK, int... i>
static MicroKernel pick(int rows, int vectors, std::integer_sequence<int, i...>) {
  static constexpr MicroKernel table[] = {micro_kernel<i / kVectors + 1, i % kVectors + 1, kK>...};
  return table[(rows - 1) * kVectors + vectors - 1];
}

// One image row into its place in each of the K copies. Whole vectors are copied where both the row's values and
// their place are followed by enough of their own kind: what is written behind a row, the next ones overwrite.
static inline void shift_row(const float* x, int64_t readable, int64_t K, int64_t W_out, float* S, int64_t writable,
                             int64_t plane) {
  for (int64_t q = 0; q < K; ++q, S += plane) {
    int64_t w = 0;
    if (W_out + kLanes <= writable && q + W_out + kLanes <= readable)
      for (; w < W_out; w += kLanes) store(S + w, load(x + q + w));
    for (; w < W_out; ++w) S[w] = x[q + w];
  }
}

// S for `rows` image rows that start at x, of one image of C channels of H x W.
static inline void shift(const fops_conv& conv, const float* x, int64_t rows, float* S, int64_t plane) {
  const int64_t W_out = out_w(conv);
  for (int64_t c = 0; c < conv.C; ++c)
    for (int64_t h = 0; h < rows; ++h) {
      const int64_t at = c * conv.H * conv.W + h * conv.W, end = c * conv.H * conv.W + rows * conv.W;
      shift_row(x + at, end - at, conv.K, W_out, S + c * conv.K * plane + h * W_out, (rows - h) * W_out, plane);
    }
}

// The same from pixels. Each is widened once, not once for each copy; but in rows longer than kRowBuffer.
static inline void shift(const fops_conv& conv, const uint8_t* x, int64_t rows, float* S, int64_t plane) {
  constexpr int64_t kRowBuffer = 1024;
  float wide[kRowBuffer + kLanes];
  const int64_t W_out = out_w(conv);
  for (int64_t c = 0; c < conv.C; ++c)
    for (int64_t h = 0; h < rows; ++h) {
      const uint8_t* from = x + (c * conv.H + h) * conv.W;
      float* to = S + c * conv.K * plane + h * W_out;
      if (conv.W <= kRowBuffer) {
        for (int64_t w = 0; w < conv.W; ++w) wide[w] = from[w];
        for (int64_t w = conv.W; w < conv.W + kLanes; ++w) wide[w] = 0;
        shift_row(wide, conv.W + kLanes, conv.K, W_out, to, (rows - h) * W_out, plane);
      } else {
        for (int64_t q = 0; q < conv.K; ++q)
          for (int64_t w = 0; w < W_out; ++w) to[q * plane + w] = from[q + w];
      }
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
  const int rows = static_cast<int>(block_start(b, block + 1) - m);
  const auto sizes = std::make_integer_sequence<int, kRows * kVectors>();
  const MicroKernel kernel = b.K == 5 ? pick<5>(rows, vectors, sizes) : pick<0>(rows, vectors, sizes);
  kernel(b, S + n, k + m * b.depth, y + n, end - n - (vectors - 1) * kLanes);
}

}  // namespace FOPS_ISA
}  // namespace fops
