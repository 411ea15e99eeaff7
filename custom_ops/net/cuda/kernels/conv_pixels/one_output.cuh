// The layout of conv_pixels.cu for many filters: a column of the product is one output of the convolution.
//
//   upper rows of windows   L R | L R | L R | L R   Columns of an mma tile: n / 2 is the window, n % 2 the window's left
//   lower rows of windows   L R | L R | L R | L R   or right column. Four tiles: the windows' upper or lower rows, of
//   lane t                  t=0   t=1   t=2   t=3   even or odd windows of eight. So a lane has all four sums of a
//                                                   window, and two windows.
#pragma once

#include "gpu/isa/mma.cuh"
#include "net/cuda/kernels/conv_pixels/products.cuh"

namespace fops::fused_pixels {

// There are kFull tiles of 16 filters and, if kRest, one tile of up to eight filters, with the high parts of their
// weights in rows 0 to 7 and the low parts in rows 8 to 15.
template <int kFull, bool kRest>
struct OneOutput {
  static constexpr bool kTwo = false;
  static constexpr int kWarps = 4,  // warps per block
      kBlocks = 4;                  // minimum blocks per SM
  static constexpr int kOnce = 1;   // number of chunks of outputs that a warp computes together
  static constexpr int kTiles = kFull + kRest, kHalf = (kFull + 1) / 2, kFragments = (2 * kFull + kRest) * kSteps;
  using Weights = uint32_t[kFragments][4];

  int offset[4];  // byte offsets of this lane's pairs of taps from an output's top left pixel

  __device__ explicit OneOutput(const Sizes& s) {
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const Pair pair = pair_of_one(4 * i + threadIdx.x % 4);
      offset[i] = 4 * (pair.padding ? s.stride + 2 : pair.p * s.stride + pair.q);
    }
  }

  // Computes eight outputs of each filter of tiles kFrom to kTo - 1 from staged pixels, the first of them `chunk`.
  template <bool kHalves, int kFrom, int kTo, int, bool kExact, bool kUnit>
  __device__ __forceinline__ void products(const Sizes& s, const Weights& weights,
                                           const Unscaled<kExact, kUnit>& scaled, const uint32_t* hi,
                                           const uint32_t* lo, const Outgoing& to, int chunk, int) const {
    const int lane = threadIdx.x % 32, g = lane / 4, t = lane % 4;
    uint32_t in[2][2][4], rest[2][2][4];  // [even or odd output][row of the window][register]
#pragma unroll
    for (int j = 0; j < 2; ++j) {
      const int at = min(chunk + g / 2 * 2 + j, s.outputs - 1), row = divide(at, s.inverse_PW);
      const int corner = 4 * (2 * row * s.stride + 2 * (at - row * s.PW) + g % 2);
#pragma unroll
      for (int r = 0; r < 2; ++r)
#pragma unroll
        for (int i = 0; i < 4; ++i) {
          const int from = corner + r * 4 * s.stride + offset[i];
          in[j][r][i] = *reinterpret_cast<const uint32_t*>(reinterpret_cast<const char*>(hi) + from);
          if (!kExact) rest[j][r][i] = *reinterpret_cast<const uint32_t*>(reinterpret_cast<const char*>(lo) + from);
        }
    }
    const int first = chunk + 2 * t;
    const bool one = first < s.outputs, two = first + 1 < s.outputs;
    int place = (16 * kFrom + g) * s.outputs + first;

#pragma unroll
    for (int tile = kFrom; tile < (kTo < kFull ? kTo : kFull); ++tile) {
      float sum[2][2][4] = {};
      // Multiplies the weights' low parts (half 0) or high parts (half 1) with the pixels `of`.
      const auto multiply = [&](int half, const uint32_t (&of)[2][2][4]) {
#pragma unroll
        for (int step = 0; step < kSteps; ++step)
#pragma unroll
          for (int e = 0; e < 4; ++e)
            mma(sum[e / 2][e % 2], weights[(tile * 2 + half) * kSteps + step], of[e / 2][e % 2][2 * step],
                of[e / 2][e % 2][2 * step + 1]);
      };
      multiply(0, in);
      if (!kExact) multiply(1, rest);
      multiply(1, in);
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        float v[2];
#pragma unroll
        for (int j = 0; j < 2; ++j)
          v[j] = scaled(fmaxf(fmaxf(sum[j][0][2 * half], sum[j][0][2 * half + 1]),
                              fmaxf(sum[j][1][2 * half], sum[j][1][2 * half + 1])));
        const bool real = tile < kTiles - 1 || 16 * tile + 8 * half + g < s.M;
        emit<kHalves>(to, place, one && real, two && real, v[0], v[1]);
        place += 8 * s.outputs;
      }
    }
    if (kRest && kTo == kTiles) {
      float sum[2][2][4] = {};
#pragma unroll
      for (int step = 0; step < kSteps; ++step)
#pragma unroll
        for (int e = 0; e < 4; ++e) {
          const uint32_t (&w)[4] = weights[kFull * 4 + step];
          if (!kExact) mma(sum[e / 2][e % 2], w, rest[e / 2][e % 2][2 * step], rest[e / 2][e % 2][2 * step + 1]);
          mma(sum[e / 2][e % 2], w, in[e / 2][e % 2][2 * step], in[e / 2][e % 2][2 * step + 1]);
        }
      float v[2];
#pragma unroll
      for (int j = 0; j < 2; ++j)
        v[j] = scaled(fmaxf(fmaxf(sum[j][0][0] + sum[j][0][2], sum[j][0][1] + sum[j][0][3]),
                            fmaxf(sum[j][1][0] + sum[j][1][2], sum[j][1][1] + sum[j][1][3])));
      const bool real = 16 * kFull + g < s.M;
      emit<kHalves>(to, place, one && real, two && real, v[0], v[1]);
    }
  }
};

}  // namespace fops::fused_pixels
