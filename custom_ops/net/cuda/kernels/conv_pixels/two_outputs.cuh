// The layout of conv_pixels.cu for up to kMostTwo filters: a column of the product is the two outputs of the
// convolution in the upper or lower row of a pool's window.
//
//   weights of a row of taps    left output    k0 k1 k2 k3 k4  0   rows 0 to 7 of a tile: eight filters
//                               right output    0 k0 k1 k2 k3 k4   rows 8 to 15: the same filters
//   columns of two mma tiles    upper          w0 w1 w2 w3 w4 w5 w6 w7   the upper rows of eight windows
//                               lower          w0 w1 w2 w3 w4 w5 w6 w7   the lower rows of the same windows
//   lane t                                     t=0   t=1   t=2   t=3     has all four sums of two windows
//
// With few filters most of the work is loading pixels and computing their addresses. In this layout an output takes
// half as many loads. The staged words of two pixels do not overlap, so half as many are stored.
#pragma once

#include "gpu/isa/mma.cuh"
#include "net/cuda/kernels/conv_pixels/products.cuh"

namespace fops::fused_pixels {

// kTiles_: number of tiles of eight filters.
template <int kTiles_, int kWarps_>
struct TwoOutputs {
  static constexpr bool kTwo = true;
  static constexpr int kWarps = kWarps_;
  static constexpr int kBlocks = (kTiles_ <= 2 ? 24 : 16) / kWarps;  // minimum blocks per SM
  static constexpr int kOnce = kTiles_ == 1 ? 2 : 1;  // number of chunks of outputs that a warp computes together
  static constexpr int kTiles = kTiles_, kHalf = (kTiles + 1) / 2, kFragments = 2 * kTiles * kSteps;
  using Weights = uint32_t[kFragments][4];

  int rows,   // byte offset of this lane's first pair in rows 0 to 3 of taps, from the window's top left pixel
      fifth;  // byte offset of this lane's pair in the fifth row of taps

  __device__ explicit TwoOutputs(const Sizes& s) {
    const int t = threadIdx.x % 4;
    rows = 4 * t * s.stride;
    fifth = 4 * (4 * s.stride + min(t, 2));  // lane 3's weights are zeros
  }

  // Computes kOnce chunks of eight outputs of each filter of tiles kFrom to kTo - 1 from staged pixels. The first chunk
  // begins at output `chunk`, and each further one `apart` outputs later. The products of a chunk and tile depend on
  // one another; products of two chunks overlap.
  template <bool kHalves, int kFrom, int kTo, int kOnce, bool kExact, bool kUnit>
  __device__ __forceinline__ void products(const Sizes& s, const Weights& weights,
                                           const Unscaled<kExact, kUnit>& scaled, const uint32_t* hi,
                                           const uint32_t* lo, const Outgoing& to, int chunk, int apart) const {
    const int lane = threadIdx.x % 32, g = lane / 4, t = lane % 4;
    uint32_t in[kOnce][2][4], rest[kOnce][2][4];  // [chunk][row of the window][register]
    const auto load = [&](const uint32_t* words, int corner, uint32_t (&into)[2][4]) {
#pragma unroll
      for (int r = 0; r < 2; ++r) {
        const char* from = reinterpret_cast<const char*>(words) + corner + 4 * r * s.stride;
#pragma unroll
        for (int i = 0; i < 3; ++i) into[r][i] = *reinterpret_cast<const uint32_t*>(from + rows + 4 * i);
        into[r][3] = *reinterpret_cast<const uint32_t*>(from + fifth);
      }
    };
#pragma unroll
    for (int n = 0; n < kOnce; ++n) {
      const int at = min(chunk + n * apart + g, s.outputs - 1), row = divide(at, s.inverse_PW);
      const int corner = 4 * (2 * row * s.stride + at - row * s.PW);
      load(hi, corner, in[n]);
      if (!kExact) load(lo, corner, rest[n]);
    }

#pragma unroll
    for (int tile = kFrom; tile < kTo; ++tile) {
      float sum[kOnce][2][4];
      // Multiplies the weights' low parts (half 0) or high parts (half 1) with the pixels `of`.
      const auto multiply = [&](int half, const uint32_t (&of)[kOnce][2][4]) {
#pragma unroll
        for (int step = 0; step < kSteps; ++step)
#pragma unroll
          for (int n = 0; n < kOnce; ++n)
#pragma unroll
            for (int r = 0; r < 2; ++r) {
              const uint32_t (&w)[4] = weights[(tile * 2 + half) * kSteps + step];
              const uint32_t b0 = of[n][r][2 * step], b1 = of[n][r][2 * step + 1];
              mma_chain(half == 0 && step == 0, sum[n][r], w, b0, b1);
            }
      };
      multiply(0, in);
      if (!kExact) multiply(1, rest);
      multiply(1, in);
      const bool real = tile < kTiles - 1 || 8 * tile + g < s.M;
#pragma unroll
      for (int n = 0; n < kOnce; ++n) {
        const auto largest = [&](int j) {
          return scaled(fmaxf(fmaxf(sum[n][0][j], sum[n][0][j + 2]), fmaxf(sum[n][1][j], sum[n][1][j + 2])));
        };
        const int first = chunk + n * apart + 2 * t;
        emit<kHalves>(to, (8 * tile + g) * s.outputs + first, first < s.outputs && real, first + 1 < s.outputs && real,
                      largest(0), largest(1));
      }
    }
  }
};

}  // namespace fops::fused_pixels
