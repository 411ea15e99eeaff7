// For conv_pixels.cu: the epilogue, and the assignment of outputs to warps.
#pragma once

#include <type_traits>

#include "gpu/isa/tanh.cuh"
#include "net/cuda/kernels/conv_pixels/layout.cuh"
#include "net/cuda/kernels/stages.h"

namespace fops::fused_pixels {

// The buffer in which a block collects an image's outputs: either floats, or the high parts (half precision) of all
// outputs, followed by their low parts.
struct Outgoing {
  float* floats;
  __half *hi, *lo;
};

// Computes two neighbouring outputs of a filter from a and b, the largest sums of their windows. Stores the output at
// index i if `first`, and the output at i + 1 if `second`. Both are computed in any case, because a branch would keep
// the next tile's products from overlapping with this.
template <bool kHalves>
__device__ inline void emit(const Outgoing& to, int i, bool first, bool second, float a, float b) {
  if constexpr (kHalves) {  // with halves the number of outputs is even, so `second` equals `first`
    const float y0 = tanh_of_argument<kTanhScale>(a), y1 = tanh_of_argument<kTanhScale>(b);
    const __half2 high = __floats2half2_rn(y0, y1);
    const __half2 low = __floats2half2_rn(y0 - __low2float(high), y1 - __high2float(high));
    if (first) *reinterpret_cast<__half2*>(to.hi + i) = high;
    if (first) *reinterpret_cast<__half2*>(to.lo + i) = low;
  } else {
    const float y0 = tanh_of_argument(a), y1 = tanh_of_argument(b);
    if (first) to.floats[i] = y0;
    if (second) to.floats[i + 1] = y1;
  }
}

// Undoes the scales of weights and pixels in a sum. If kUnit, there is no factor, because the pixels' scale is the
// inverse of the weights'.
template <bool kExact, bool kUnit>
struct Unscaled {
  float unscale, rescale;
  __device__ float operator()(float v) const { return kUnit ? v : kExact ? v * unscale : v * unscale * rescale; }
};

template <int kValue>
using Number = std::integral_constant<int, kValue>;

// Computes one image's outputs, in chunks of kChunk outputs of all filters. `way` is the layout of the products:
// OneOutput or TwoOutputs. The warps take the chunks in rounds. If the last round has chunks for at most half of the
// warps, two warps share a chunk, each with half of the tiles.
template <bool kExact, bool kUnit, bool kHalves, class Way>
__device__ void multiply(const Way& way, const Sizes& s, const typename Way::Weights& weights, float unscale,
                         float rescale, const uint32_t* hi, const uint32_t* lo, const Outgoing& to) {
  constexpr int kTiles = Way::kTiles, kHalf = Way::kHalf, kWarps = Way::kWarps, kOnce = Way::kOnce;
  constexpr bool kShare = kHalf < kTiles;
  const Unscaled<kExact, kUnit> scaled{unscale, rescale};
  const int warp = threadIdx.x / 32, chunks = (s.outputs + kChunk - 1) / kChunk;
  const int shared = kShare && chunks % kWarps <= kWarps / 2 ? chunks % kWarps : 0;
  const auto products = [&](auto from, auto end, auto once, int chunk) {
    way.template products<kHalves, from, end, once>(s, weights, scaled, hi, lo, to, chunk * kChunk, kWarps * kChunk);
  };
  constexpr Number<0> kBegin;
  constexpr Number<kTiles> kEnd;
  constexpr Number<kHalf> kMiddle;
  int chunk = warp;
  for (; kOnce > 1 && chunk + (kOnce - 1) * kWarps < chunks - shared; chunk += kOnce * kWarps)
    products(kBegin, kEnd, Number<kOnce>(), chunk);
  for (; chunk < chunks - shared; chunk += kWarps) products(kBegin, kEnd, Number<1>(), chunk);
  if constexpr (kShare) {
    if (warp >= 2 * shared) return;
    chunk = chunks - shared + warp / 2;
    if (warp % 2 == 0)
      products(kBegin, kMiddle, Number<1>(), chunk);
    else
      products(kMiddle, kEnd, Number<1>(), chunk);
  }
}

}  // namespace fops::fused_pixels
