// The convolution of shifted_simd.cpp for a band of rows of one image, for whoever drives it: the operator there, the
// fused stage in net/cpu/stages_simd.cpp. The head of shifted_simd.cpp explains it.
#pragma once

#include <algorithm>
#include <cstring>
#include <utility>

#include "base/simd.h"
#include "base/summation.h"
#include "conv/kernel.h"

namespace fops {
namespace FOPS_ISA {

constexpr int kRows = kManyRegisters ? 6 : 4, kVectors = kManyRegisters ? 4 : 3;
// A K known to the compiler unrolls the innermost loops. With 32 registers that is 8% faster for the course's 5x5
// filters. With 16 registers the compiler runs out of them: 20.1 us an image of fa2017 on one Zen 3 core, 16.5 us with
// an unknown K; the multiply-adds alone take 14.1 us.
constexpr bool kKnownK = kManyRegisters;
constexpr int64_t kSlack = kVectors * kLanes;  // floats behind S that the last vector may read

// What one band of output rows of one image needs.
struct Band {
  int64_t C, K, M;
  int64_t plane;      // floats from one S[c][q] to the next
  int64_t W_out;      // floats from one p to the next
  int64_t depth;      // C*K*K, floats from one filter to the next
  int64_t y_stride;   // floats from one filter's output to the next
  bool far;           // y is in no cache: its lines are prefetched while the sums are computed
};

// The part of a sum that a pass computes: rows of a filter's weights, of C * K.
struct Part {
  int64_t begin, end;
};

// Output positions [0, end) of `rows` filters, rows x vectors of them at a time; the last time, fewer than all may be
// valid. kK is K where that is known, else 0. The loops over acc must be gone before the compiler decides what lives in
// registers, hence the pragmas: otherwise it clears a copy of acc in memory as well, 15% of the time with 16 registers.
template <int rows, int vectors, int kK>
static void micro_kernel(const Band& b, const float* S, const float* k, float* y, int64_t end, Part part) {
  const int64_t K = kK ? kK : b.K, plane = b.plane, W_out = b.W_out, depth = b.depth, y_stride = b.y_stride;
  const int64_t first = part.begin / K, last = (part.end - 1) / K;  // channels
  const bool more = part.begin > 0;                                 // parts before this one are in y
  for (int64_t n = 0; n < end; n += vectors * kLanes, S += vectors * kLanes, y += vectors * kLanes) {
    Vector acc[rows][vectors];
#pragma GCC unroll 8
    for (int r = 0; r < rows; ++r)
#pragma GCC unroll 8
      for (int v = 0; v < vectors; ++v) {
        acc[r][v] = Vector{};
        if (b.far && !more) __builtin_prefetch(y + r * y_stride + v * kLanes, 1);
      }
    const float* weight = k + part.begin * K;
    for (int64_t c = first; c <= last; ++c) {
      const int64_t p_end = c == last ? part.end - c * K : K;
      for (int64_t p = c == first ? part.begin - c * K : 0; p < p_end; ++p) {
        const float* row = S + c * K * plane + p * W_out;
        for (int64_t q = 0; q < K; ++q, row += plane, ++weight) {
          Vector x[vectors];
#pragma GCC unroll 8
          for (int v = 0; v < vectors; ++v) x[v] = load(row + v * kLanes);
#pragma GCC unroll 8
          for (int r = 0; r < rows; ++r) {
            const float w = weight[r * depth];
#pragma GCC unroll 8
            for (int v = 0; v < vectors; ++v) acc[r][v] = multiply_add(x[v], w, acc[r][v]);
          }
        }
      }
    }
    const int64_t valid = end - n - (vectors - 1) * kLanes;  // of the last vector
#pragma GCC unroll 8
    for (int r = 0; r < rows; ++r) {
#pragma GCC unroll 8
      for (int v = 0; v < vectors; ++v) {
        float* out = y + r * y_stride + v * kLanes;
        if (v < vectors - 1 || valid >= kLanes) {
          store(out, more ? load(out) + acc[r][v] : acc[r][v]);
        } else {
          Vector some = {};  // of its own: whose address is taken does not stay in a register
          if (more) memcpy(&some, out, valid * sizeof(float));
          some += acc[r][v];
          memcpy(out, &some, valid * sizeof(float));
        }
      }
    }
  }
}

using MicroKernel = void (*)(const Band&, const float*, const float*, float*, int64_t, Part);

// micro_kernel<row + 1, vector + 1> of every size: i is row * kVectors + vector.
template <int kK, int... i>
static MicroKernel pick(int64_t rows, int64_t vectors, std::integer_sequence<int, i...>) {
  static constexpr MicroKernel table[] = {micro_kernel<i / kVectors + 1, i % kVectors + 1, kK>...};
  return table[(rows - 1) * kVectors + vectors - 1];
}

static inline MicroKernel pick(const Band& b, int64_t rows, int64_t vectors) {
  const auto sizes = std::make_integer_sequence<int, kRows * kVectors>();
  if (kKnownK && b.K == 5) return pick<kKnownK ? 5 : 0>(rows, vectors, sizes);
  if (kKnownK && b.K == 7) return pick<kKnownK ? 7 : 0>(rows, vectors, sizes);
  return pick<0>(rows, vectors, sizes);
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

constexpr int64_t kChunk = (16 << 10) / (4 * kRows) / kSlack * kSlack;  // positions: 16 KB of y

// y for output positions [0, end) of the filters of one block; y points at its first filter. Where sums have several
// parts (base/summation.h), these follow each other while a few tiles of y are in the first-level cache.
static inline void multiply_block(const Band& b, const float* S, const float* k, float* y, int64_t block, int64_t end) {
  const int64_t m = block_start(b, block), rows = block_start(b, block + 1) - m;
  const int64_t all = b.C * b.K, part = part_of_sum(b.depth, b.K) / b.K;
  const int64_t chunk = part < all ? kChunk : end + kSlack;
  for (int64_t n = 0; n < end; n += chunk) {
    const int64_t count = std::min(chunk, end - n), whole = count / kSlack * kSlack, rest = count - whole;
    for (int64_t i = 0; i < all; i += part) {
      const Part rows_of_weights = {i, std::min(i + part, all)};
      pick(b, rows, kVectors)(b, S + n, k + m * b.depth, y + n, whole, rows_of_weights);
      if (rest)
        pick(b, rows, (rest + kLanes - 1) / kLanes)(b, S + n + whole, k + m * b.depth, y + n + whole, rest,
                                                    rows_of_weights);
    }
  }
}

}  // namespace FOPS_ISA
}  // namespace fops
