// conv_pixels.cu: layout of weights, pixels and outputs in registers and memory. Shared by the kernel and the code that
// packs its weights (pack.cu).
#pragma once

#include <cstddef>
#include <cstdint>

#include "gpu/divide.cuh"
#include "gpu/isa/tanh.cuh"
#include "net/cuda/kernels/dense/dense.h"
#include "net/plan.h"

namespace fops {
namespace fused_pixels {

// Filters are the rows of an mma tile. The low halves of the weights are multiplied first, then the high ones, into the
// same sums. What a column is depends on how many filters there are:
//
//   one_output.cuh    a column is the 5 x 5 pixels of one output, a tile's rows are 16 filters
//   two_outputs.cuh   a column is the 5 x 6 pixels of a window's two outputs in a row, a tile's rows are eight filters'
//                     left outputs and their right ones
//
// The second layout loads half as many pixels per output, but its weights take twice as many registers.
constexpr int K = 5, kTaps = K * K;
constexpr int kSteps = 2;     // steps of mma: 16 pairs of taps
constexpr int kMostTwo = 32;  // maximum number of filters for two outputs per column: 64 registers of weights
constexpr int kChunk = 8;     // outputs of a filter that a warp computes at a time
// The smallest nonzero scaled magnitude of a pixel, or of a weight scaled for tanh's argument. Low halves end at 2^-25.
// Below 1/2 a value loses bits: down to the magnitude given here, up to half of sqrt(25) units of 2^-24, which is as
// much as its sum may lose anyway.
constexpr float kLeastPixel = 0.2f, kLeastWeight = static_cast<float>(kLeastPixel / kTanhArgument);
constexpr size_t kMostShared = 98 * 1024;  // shared memory per block on every GPU from sm_80 on

// The neighbouring taps (p, q) and (p, q + 1) of a column's i-th pair, which is in register i / 4 of lanes i % 4. The
// tap at q + 1 may be outside the filter. `padding`: both taps are outside.
struct Pair {
  int p, q;
  bool padding;
};

// One output per column. p and q are a nibble each. Staged rows are an odd multiple of 16 words apart, so that the
// pairs of three of the four registers, {0, 2, 16, 18} or {2, 4, 18, 20} modulo 32, together with the windows' {0, 1,
// 4, 5, 8, 9, 12, 13} fall into 32 different banks; those of the last one take two turns.
__host__ __device__ constexpr Pair pair_of_one(int i) {
  return {static_cast<int>(0x4410134233221100 >> 4 * i & 15), static_cast<int>(0x4044202042422020 >> 4 * i & 15),
          i == 11};
}

// Two outputs per column: lane t has row t of a column's first four rows, and pair t of the fifth row. Staged rows are
// an odd multiple of 8 words apart, and eight neighbouring windows are one word apart, so that all are in different
// banks.
__host__ __device__ constexpr Pair pair_of_two(int i) {
  return {i < 12 ? i % 4 : 4, i < 12 ? i / 4 * 2 : i % 4 * 2, i == 15};
}

struct Sizes {
  long long n;
  int H, W, M;
  int rows;           // rows of the image that the windows use
  int stride;         // words between two staged rows
  int PW, outputs;    // outputs of one filter
  int values;         // per item: M * outputs
  int out_stride;     // values from one item to the next in memory
  uint32_t inverse_PW, inverse_groups;
  int groups;         // groups of four pixels per row
  bool vector_in;     // images begin on 4-byte (uint8) or 16-byte boundaries, as do rows of floats
  bool vector_out;    // items begin on 16-byte boundaries
};

__host__ __device__ inline int staged_words(const Sizes& s) { return s.rows * s.stride; }
__host__ __device__ inline int raw_words(const Sizes& s) { return (s.rows * s.W + 8 + 15) / 16 * 4; }
__host__ __device__ inline int half_bytes(const Sizes& s) { return (s.values * 2 + 15) / 16 * 16; }

// Whether a column has two outputs.
inline bool two_outputs(int M) { return M <= kMostTwo; }

inline Sizes sizes_for(const Stage& stage, bool halves) {
  Sizes s = {};
  s.H = static_cast<int>(stage.in.H), s.W = static_cast<int>(stage.in.W), s.M = static_cast<int>(stage.out.C);
  s.rows = static_cast<int>(2 * stage.out.H) + K - 1;
  s.groups = (s.W + 3) / 4;  // at least 2
  // The smallest odd multiple of 8 or 16 that holds a row of words. Words begin at every second pixel, or at each
  // pixel.
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

}  // namespace fused_pixels
}  // namespace fops
