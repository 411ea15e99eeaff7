// conv_pixels.cu: how weights, pixels and outputs lie in registers and memory. The kernel and what packs its weights
// (pack.cu) share it.
#pragma once

#include <cstddef>
#include <cstdint>

#include "gpu/divide.cuh"
#include "gpu/isa/tanh.cuh"
#include "net/cuda/kernels/dense/dense.h"
#include "net/plan.h"

namespace fops {
namespace fused_pixels {

// Filters are the rows of an mma tile, 16 a tile: first the low halves of the weights, then the high ones, into the
// same sums. Up to eight filters left over share a tile, high halves in rows 0 to 7 and low ones below.
constexpr int K = 5, kTaps = K * K;
constexpr int kSteps = 2;  // of mma: 16 pairs of taps
constexpr int kWarps = 4, kThreads = 32 * kWarps;
constexpr int kChunk = 8;  // outputs a warp computes at a time
// The smallest scaled magnitude of a pixel, or of a weight as tanh's argument has it, but zero. Low halves end at 2^-25:
// below 1/2 a value loses bits, down to here half of sqrt(25) units of 2^-24, as much as its sum may lose anyway.
constexpr float kLeastPixel = 0.2f, kLeastWeight = static_cast<float>(kLeastPixel / kTanhArgument);
constexpr size_t kMostShared = 98 * 1024;  // what every GPU from sm_80 on gives a block

// Pairs of taps (p, q) and (p, q + 1), p and q a nibble each, in the order in which lanes 0 to 3 read them for the four
// registers of two mma steps; pair 11 is padding. Staged rows are an odd multiple of 16 words apart, so that the pairs
// of three of the four registers, {0, 2, 16, 18} or {2, 4, 18, 20} modulo 32, together with the windows' {0, 1, 4, 5,
// 8, 9, 12, 13} fall into 32 different banks; the last one's take two turns.
constexpr uint64_t kPairP = 0x4410134233221100, kPairQ = 0x4044202042422020;
constexpr int kPadding = 11;
__host__ __device__ constexpr int pair_p(int i) { return static_cast<int>(kPairP >> 4 * i & 15); }
__host__ __device__ constexpr int pair_q(int i) { return static_cast<int>(kPairQ >> 4 * i & 15); }

struct Sizes {
  long long n;
  int H, W, M;
  int rows;           // of the image that the windows reach
  int stride;         // words between two staged rows
  int PW, outputs;    // of one filter
  int values;         // of an item: M * outputs
  int out_stride;     // of an item in memory, in values
  uint32_t inverse_PW, inverse_groups;
  int groups;         // of four pixels, in a row
  bool vector_in;     // images begin on 4-byte (uint8) or 16-byte boundaries, and so do rows of floats
  bool vector_out;    // items begin on 16-byte boundaries
};

__host__ __device__ constexpr int tiles_of(int M) { return M / 16 + (M % 16 > 8); }
__host__ __device__ constexpr bool has_rest(int M) { return M % 16 >= 1 && M % 16 <= 8; }
__host__ __device__ constexpr int fragments(int full, bool rest) { return (2 * full + rest) * kSteps; }

__host__ __device__ inline int staged_words(const Sizes& s) { return s.rows * s.stride; }
__host__ __device__ inline int raw_words(const Sizes& s) { return (s.rows * s.W + 8 + 15) / 16 * 4; }
__host__ __device__ inline int half_bytes(const Sizes& s) { return (s.values * 2 + 15) / 16 * 16; }

inline Sizes sizes_for(const Stage& stage, bool halves) {
  Sizes s = {};
  s.H = static_cast<int>(stage.in.H), s.W = static_cast<int>(stage.in.W), s.M = static_cast<int>(stage.out.C);
  s.rows = static_cast<int>(2 * stage.out.H) + K - 1;
  s.stride = (s.W + 15) / 32 * 32 + 16;  // the least odd multiple of 16 that holds a row
  s.PW = static_cast<int>(stage.out.W), s.outputs = static_cast<int>(stage.out.H * stage.out.W);
  s.values = s.M * s.outputs;
  s.out_stride = halves ? static_cast<int>(dense_stride(s.values)) : s.values;
  s.inverse_PW = inverse_of(static_cast<uint32_t>(s.PW));
  s.groups = (s.W + 3) / 4;  // 2 at least
  s.inverse_groups = inverse_of(static_cast<uint32_t>(s.groups));
  return s;
}

inline size_t shared_bytes(const Sizes& s, bool halves, bool pixels) {
  return sizeof(uint32_t) * (staged_words(s) + (pixels ? raw_words(s) : staged_words(s))) +
         (halves ? 2 * half_bytes(s) : 4 * s.values);
}

}  // namespace fused_pixels
}  // namespace fops
