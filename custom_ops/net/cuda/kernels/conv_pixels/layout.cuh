// For conv_pixels.cu: layout of weights, pixels and outputs in registers and memory. Used by the kernel and by the code
// that packs its weights (pack.cu).
#pragma once

#include <cstddef>
#include <cstdint>

#include "gpu/divide.cuh"
#include "gpu/isa/tanh.cuh"
#include "net/cuda/kernels/dense/dense.h"
#include "net/plan.h"

namespace fops::fused_pixels {

// The weights are operand A of the mma, the pixels operand B. The low parts of the weights are multiplied first, then
// the high parts, into the same accumulators. There are two layouts, chosen by the number of filters:
//
//   one_output.cuh    a column of B is the 5 x 5 pixels of one output; the 16 rows of A are 16 filters
//   two_outputs.cuh   a column of B is the 5 x 6 pixels of two neighbouring outputs of a pool's window; the rows of A
//                     are eight filters for the left output, and the same filters shifted for the right output
//
// The second layout loads half as many pixels per output, but its weights take twice as many registers.
constexpr int K = 5, kTaps = K * K;
constexpr int kSteps = 2;     // mma instructions per column: 16 pairs of taps, 8 per instruction
constexpr int kMostTwo = 32;  // maximum number of filters for two outputs per column: 64 registers of weights
constexpr int kChunk = 8;     // outputs of a filter that a warp computes at a time
// The smallest nonzero scaled magnitude of a pixel, or of a weight scaled for tanh's argument. A value below 1/2 loses
// bits, because low parts are rounded to multiples of 2^-24. A value from this magnitude on makes its sum lose no more
// than half of sqrt(25) units of 2^-24, which docs/precision.md allows.
constexpr float kLeastPixel = 0.2f, kLeastWeight = static_cast<float>(kLeastPixel / kTanhArgument);

// The i-th pair of a column of B: the taps (p, q) and (p, q + 1). The pair is in register i / 4 of the lanes whose
// number modulo 4 is i % 4. The tap (p, q + 1) may be outside the filter. `padding`: whether both taps are outside.
struct Pair {
  int p, q;
  bool padding;
};

// Returns the i-th pair with one output per column. The two constants hold p and q of pair i in their i-th nibble.
// Staged rows are an odd multiple of 16 words apart. For three of the four registers, the pairs' offsets modulo 32 are
// {0, 2, 16, 18} or {2, 4, 18, 20}; with the windows' offsets {0, 1, 4, 5, 8, 9, 12, 13} a warp's loads fall into 32
// different banks. The loads of the last register have two-way bank conflicts.
__host__ __device__ constexpr Pair pair_of_one(int i) {
  return {static_cast<int>(0x4410134233221100 >> 4 * i & 15), static_cast<int>(0x4044202042422020 >> 4 * i & 15),
          i == 11};
}

// Returns the i-th pair with two outputs per column. Lane t (modulo 4) has all three pairs of row t of the filter, and
// pair t of the fifth row. Staged rows are an odd multiple of 8 words apart, and eight neighbouring windows are one
// word apart, so that the loads of the first four rows have no bank conflicts.
__host__ __device__ constexpr Pair pair_of_two(int i) {
  return {i < 12 ? i % 4 : 4, i < 12 ? i / 4 * 2 : i % 4 * 2, i == 15};
}

struct Sizes {
  long long n;      // number of images
  int H, W, M;      // size of an image; number of filters
  int rows;         // number of rows of the image that the windows use
  int stride;       // words from one staged row to the next
  int PW, outputs;  // outputs of one filter after the pool: per row, and in all
  int values;       // outputs of an image: M * outputs
  int out_stride;   // values from one item to the next in memory
  uint32_t inverse_PW, inverse_groups;
  int groups;       // number of groups of four pixels per row
  bool vector_in;   // whether each image (uint8) begins on a 4-byte boundary, or each row (float32) on a 16-byte one
  bool vector_out;  // whether each item's outputs begin on a 16-byte boundary and are a multiple of 16 bytes
};

__host__ __device__ inline int staged_words(const Sizes& s) { return s.rows * s.stride; }
__host__ __device__ inline int raw_words(const Sizes& s) { return (s.rows * s.W + 8 + 15) / 16 * 4; }
__host__ __device__ inline int half_bytes(const Sizes& s) { return (s.values * 2 + 15) / 16 * 16; }

inline bool two_outputs(int M) { return M <= kMostTwo; }

inline Sizes sizes_for(const Stage& stage, bool halves) {
  Sizes s = {};
  s.H = static_cast<int>(stage.in.H), s.W = static_cast<int>(stage.in.W), s.M = static_cast<int>(stage.out.C);
  s.rows = static_cast<int>(2 * stage.out.H) + K - 1;
  s.groups = (s.W + 3) / 4;  // at least 2
  // With two outputs per column there is a word for every second pixel, and the stride is the smallest odd multiple of
  // 8 that holds a row. Otherwise there is a word for each pixel, and it is the smallest odd multiple of 16.
  s.stride = two_outputs(s.M) ? (s.groups * 2 + 7) / 16 * 16 + 8 : (s.W + 15) / 32 * 32 + 16;
  s.PW = static_cast<int>(stage.out.W), s.outputs = static_cast<int>(stage.out.H * stage.out.W);
  s.values = s.M * s.outputs;
  s.out_stride = halves ? static_cast<int>(dense_stride(s.values)) : s.values;
  s.inverse_PW = inverse_of(static_cast<uint32_t>(s.PW));
  s.inverse_groups = inverse_of(static_cast<uint32_t>(s.groups));
  return s;
}

inline size_t shared_bytes(const Sizes& s, bool halves, bool pixels) {
  return sizeof(uint32_t) * (staged_words(s) + (pixels ? raw_words(s) : staged_words(s))) +
         (halves ? 2 * half_bytes(s) : 4 * s.values);
}

}  // namespace fops::fused_pixels
