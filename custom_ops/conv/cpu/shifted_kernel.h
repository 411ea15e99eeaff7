// The inner functions of shifted_simd.cpp, whose head explains the method: they make the shifted copies S and compute a
// band of rows of one image. The fused stage in net/cpu/stages_simd.cpp uses them too.
#pragma once

#include <cstring>
#include <utility>

#include "base/simd.h"
#include "base/summation.h"
#include "conv/kernel.h"

namespace fops::FOPS_ISA {

// Number of filters, and of vectors of positions, in a tile.
constexpr int kRows = kManyRegisters ? 6 : 4, kVectors = kManyRegisters ? 4 : 3;
// Whether micro_kernel is also compiled for K = 5 and K = 7, so that the compiler unrolls the innermost loops. With 32
// registers that is faster for the course's 5x5 filters. With 16 registers it is slower, because registers run out.
constexpr bool kKnownK = kManyRegisters;
constexpr int64_t kSlack = kVectors * kLanes;  // positions per tile; also the number of floats after S that may be read

struct Band {
  int64_t C, K, M;
  int64_t plane;     // floats from S[c][q] to the next S[c][q]
  int64_t W_out;     // floats in S from one p to the next
  int64_t depth;     // C*K*K: weights from one filter to the next
  int64_t y_stride;  // floats from one filter's outputs to the next filter's
  bool far;          // y is too large for the near caches: prefetch its lines while the sums are computed
  int64_t part;      // rows of a filter's weights (of C*K in all) per part of a sum (base/summation.h)
};

// Computes output positions [0, end) of `rows` filters, in tiles of `rows` filters x `vectors` vectors of positions. Of the
// last tile, only valid positions are stored. kK is K if the compiler is to know it, otherwise 0. kParts: whether sums have
// several parts. The pragmas unroll the loops over acc before the compiler allocates registers. Without them it also clears
// a copy of acc in memory, which takes 15% of the time with 16 registers.
template <int rows, int vectors, int kK, bool kParts>
static void micro_kernel(const Band& b, const float* S, const float* k, float* y, int64_t end) {
  const int64_t K = kK ? kK : b.K, C = b.C, plane = b.plane, W_out = b.W_out, depth = b.depth, y_stride = b.y_stride;
  const int64_t part = b.part;
  alignas(kVectorBytes) float sums[rows * vectors * kLanes];  // sums of the previous parts
  for (int64_t n = 0; n < end; n += vectors * kLanes, S += vectors * kLanes, y += vectors * kLanes) {
    Vector acc[rows][vectors];
#pragma GCC unroll 8
    for (int r = 0; r < rows; ++r)
#pragma GCC unroll 8
      for (int v = 0; v < vectors; ++v) {
        acc[r][v] = Vector{};
        if (kParts) store(sums + (r * vectors + v) * kLanes, acc[r][v]);
        if (b.far) __builtin_prefetch(y + r * y_stride + v * kLanes, 1);
      }
    const float* weight = k;
    int64_t left = part;
    for (int64_t c = 0; c < C; ++c)
      for (int64_t p = 0; p < K; ++p, --left) {
        if (kParts && left == 0) {
#pragma GCC unroll 8
          for (int r = 0; r < rows; ++r)
#pragma GCC unroll 8
            for (int v = 0; v < vectors; ++v) {
              float* sum = sums + (r * vectors + v) * kLanes;
              store(sum, load(sum) + acc[r][v]);
              acc[r][v] = Vector{};
            }
          left = part;
        }
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
    if (kParts) {
#pragma GCC unroll 8
      for (int r = 0; r < rows; ++r)
#pragma GCC unroll 8
        for (int v = 0; v < vectors; ++v) acc[r][v] += load(sums + (r * vectors + v) * kLanes);
    }
    const int64_t valid = end - n - (vectors - 1) * kLanes;  // number of valid lanes in the last vector
#pragma GCC unroll 8
    for (int r = 0; r < rows; ++r) {
#pragma GCC unroll 8
      for (int v = 0; v < vectors; ++v) {
        float* out = y + r * y_stride + v * kLanes;
        if (v < vectors - 1 || valid >= kLanes) {
          store(out, acc[r][v]);
        } else {
          const Vector last = acc[r][v];  // a copy, because memcpy takes an address, and acc must stay in registers
          memcpy(out, &last, valid * sizeof(float));
        }
      }
    }
  }
}

using MicroKernel = void (*)(const Band&, const float*, const float*, float*, int64_t);

template <int kK, bool kParts, int... i>
static MicroKernel pick(int64_t rows, int64_t vectors, std::integer_sequence<int, i...>) {
  static constexpr MicroKernel table[] = {micro_kernel<i / kVectors + 1, i % kVectors + 1, kK, kParts>...};
  return table[(rows - 1) * kVectors + vectors - 1];
}

template <bool kParts>
static MicroKernel pick(const Band& b, int64_t rows, int64_t vectors) {
  const auto sizes = std::make_integer_sequence<int, kRows * kVectors>();
  if (kKnownK && b.K == 5) return pick<kKnownK ? 5 : 0, kParts>(rows, vectors, sizes);
  if (kKnownK && b.K == 7) return pick<kKnownK ? 7 : 0, kParts>(rows, vectors, sizes);
  return pick<0, kParts>(rows, vectors, sizes);
}

static inline MicroKernel pick(const Band& b, int64_t rows, int64_t vectors) {
  return b.part < b.C * b.K ? pick<true>(b, rows, vectors) : pick<false>(b, rows, vectors);
}

// Copies one image row into each of the K shifted copies. `readable` floats can be read from x on, and `writable` floats
// of a copy can be written from S on. Where these suffice, whole vectors are copied. They also write past the end of the
// row, and the next rows then overwrite that.
static inline void shift_row(const float* x, int64_t readable, int64_t K, int64_t W_out, float* S, int64_t writable,
                             int64_t plane) {
  for (int64_t q = 0; q < K; ++q, S += plane) {
    int64_t w = 0;
    if (W_out + kLanes <= writable && q + W_out + kLanes <= readable)
      for (; w < W_out; w += kLanes) store(S + w, load(x + q + w));
    for (; w < W_out; ++w) S[w] = x[q + w];
  }
}

// Makes S from `rows` image rows of all channels, which start at x in the first channel.
static inline void shift(const fops_conv& conv, const float* x, int64_t rows, float* S, int64_t plane) {
  const int64_t W_out = out_w(conv);
  for (int64_t c = 0; c < conv.C; ++c)
    for (int64_t h = 0; h < rows; ++h) {
      const int64_t at = c * conv.H * conv.W + h * conv.W, end = c * conv.H * conv.W + rows * conv.W;
      shift_row(x + at, end - at, conv.K, W_out, S + c * conv.K * plane + h * W_out, (rows - h) * W_out, plane);
    }
}

// Makes S from uint8 pixels. Each pixel is converted once, not once per copy, except in rows longer than kRowBuffer.
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

// Filters are in blocks of nearly equal size, at most kRows. With kRows = 6, 50 filters are in five blocks of 6 and four of
// 5, because a block of 2 would have too few independent sums to hide the latency of multiply-adds.
static inline int64_t filter_blocks(int64_t M) { return (M + kRows - 1) / kRows; }
static inline int64_t block_start(const Band& b, int64_t block) { return b.M * block / filter_blocks(b.M); }

// Computes output positions [0, end) of the filters of one block; y points at the first output of the block's first filter.
static inline void multiply_block(const Band& b, const float* S, const float* k, float* y, int64_t block, int64_t end) {
  const int64_t m = block_start(b, block), rows = block_start(b, block + 1) - m;
  const int64_t whole = end / kSlack * kSlack, rest = end - whole;
  pick(b, rows, kVectors)(b, S, k + m * b.depth, y, whole);
  if (rest) pick(b, rows, (rest + kLanes - 1) / kLanes)(b, S + whole, k + m * b.depth, y + whole, rest);
}

}  // namespace fops::FOPS_ISA
