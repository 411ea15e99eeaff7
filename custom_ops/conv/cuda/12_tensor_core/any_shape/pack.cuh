// Any shape on Hopper: the weights split and laid out as wgmma reads them, and a scale for every image.
#pragma once

#include "conv/cuda/12_tensor_core/any_shape/plan.h"
#include "gpu/isa/halves.cuh"
#include "gpu/largest.cuh"

namespace fops {
namespace any_shape {

constexpr int kPackThreads = 256;
constexpr int kImagesABlock = kPackThreads / 32;
constexpr int kSamples = 8;  // values of an image that a thread looks at: 256 in all

// Where row `row` of a tile keeps the 16 bytes of its unit `half`.
__device__ inline int row_bytes(int row, int half) { return half * kTileDepth + row * 16; }

// A warp an image: its scale, from a sample all over it. The sample's largest comes to lie in [2^11, 2^12), which leaves
// a factor of 16 above for what it missed. Bytes need no sample.
template <typename X>
__device__ void choose_scale(const X* image, int count, float threshold, ImageScale* to) {
  float scale = 16.0f;
  if constexpr (sizeof(X) > 1) {
    const int stride = count / (32 * kSamples) | 1;  // odd: not a column of the image, whose sides are often even
    float largest = 0.0f;
#pragma unroll
    for (int i = 0; i < kSamples; ++i) {
      const int at = (32 * i + threadIdx.x % 32) * stride;
      if (at < count) largest = larger(largest, image[at]);
    }
    const float all = __uint_as_float(warp_max(__float_as_uint(largest)));
    scale = scale_for(all < INFINITY ? all : 1.0f) * 0.25f;  // [2^13, 2^14) / 4
  }
  if (threadIdx.x % 32 == 0) *to = {scale, threshold / scale};
}

// A block a filter of the tiles, those of padding included; behind them a warp an image.
template <typename X>
__global__ void __launch_bounds__(kPackThreads)
    pack_weights(Dims d, Plan plan, int tiles, bool stacked, const X* __restrict__ x, const float* __restrict__ k,
                 Packed packed) {
  __shared__ unsigned scratch;
  const int rows_a_tile = stacked ? kTileRows / 2 : kTileRows, filters = plan.blocks * tiles * rows_a_tile;
  const int m = blockIdx.x;
  if (m >= filters) {
    const long long image = 1LL * (m - filters) * kImagesABlock + threadIdx.x / 32;
    const int count = d.C * d.H * d.W;
    if (image < d.B) choose_scale(x + image * count, count, plan.threshold, packed.images + image);
    return;
  }

  const int taps = d.C * d.K * d.K;
  const float* filter = k + 1LL * m * taps;
  float largest = 0.0f;
  if (m < d.M)
    for (int i = threadIdx.x; i < taps; i += kPackThreads) largest = larger(largest, filter[i]);
  largest = block_max(largest, &scratch);
  const bool finite = largest < kLargestScaled;
  const float scale = finite ? scale_for(largest) : 1.0f;
  bool beyond = !finite;
  if (m < d.M)
    for (int i = threadIdx.x; i < taps; i += kPackThreads) {
      const float v = fabsf(filter[i] * scale);
      beyond |= v < plan.threshold && filter[i] != 0.0f;
    }
  if (beyond) *packed.beyond = 1;
  if (threadIdx.x == 0 && m < d.M) packed.unscale[m] = 1.0f / scale;

  const int tile = m / rows_a_tile, in_tile = m % rows_a_tile;
  const int block = tile / tiles, parts = stacked ? 1 : 2;
  // Stacked: warp w's rows 16 w to 16 w + 7 are the high halves of filters 8 w on, the next eight their low halves, so
  // that one lane holds both sums of a filter.
  const int row = stacked ? in_tile / 8 * 16 + in_tile % 8 : in_tile;
  for (int i = threadIdx.x; i < 2 * plan.steps; i += kPackThreads) {
    const int step = i / 2, half = i % 2, chunk = min(step / plan.first_steps, plan.chunk_count - 1);
    uint4 hi = {}, lo = {};
    Unit u;
    if (m < d.M && plan.chunks.unit_at(chunk, step - chunk * plan.first_steps, half, &u)) {
      uint32_t *high = &hi.x, *low = &lo.x;
      for (int e = 0; e < 8; e += 2) {
        Split s[2];
        for (int n = 0; n < 2; ++n) {
          const int c = u.slot.channel + (e + n) % u.slot.channels, q = u.q + (e + n) / u.slot.channels;
          const float v = c < d.C && q < d.K ? filter[(c * d.K + u.p) * d.K + q] : 0.0f;
          s[n] = split_enlarged(v * scale);
        }
        high[e / 2] = pack(s[0].hi, s[1].hi);
        low[e / 2] = pack(s[0].lo, s[1].lo);
      }
    }
    uint8_t* to = packed.tiles + ((1LL * block * plan.steps + step) * tiles + tile % tiles) * parts * kTileBytes;
    *reinterpret_cast<uint4*>(to + row_bytes(row, half)) = hi;
    *reinterpret_cast<uint4*>(to + (stacked ? row_bytes(row + 8, half) : kTileBytes + row_bytes(row, half))) = lo;
  }
}

}  // namespace any_shape
}  // namespace fops
