// Any shape on Hopper: the weights split and laid out as wgmma reads them, and a scale for every image.
#pragma once

#include "conv/cuda/12_tensor_core/any_shape/plan.h"
#include "gpu/isa/dependents.cuh"
#include "gpu/isa/halves.cuh"
#include "gpu/largest.cuh"

namespace fops {
namespace any_shape {

constexpr int kPackThreads = 256;
constexpr int kImagesABlock = kPackThreads / 32;
constexpr int kSamples = 8;  // values of an image that a thread looks at: 256 in all

// Where row `row` of a tile keeps the 16 bytes of its unit `half`.
__device__ inline int row_bytes(int row, int half) { return half * kTileDepth + row * 16; }

// A sample's place in an image of `count` values, which it may exceed. The stride is odd: not a column of the image,
// whose sides are often even.
__device__ inline int sample_at(int sample, int count) { return sample * (count / (32 * kSamples) | 1); }

// An image's scale, from the largest of a sample all over it, which comes to lie in [2^11, 2^12): a factor of 16 above
// is left for what the sample missed.
__device__ inline float sampled_scale(float largest) {
  return scale_for(largest < INFINITY ? largest : 1.0f) * 0.25f;  // [2^13, 2^14) / 4
}

// A warp an image: its scale. Bytes need no sample.
template <typename X>
__device__ void choose_scale(const X* image, int count, float threshold, ImageScale* to) {
  float scale = 16.0f;
  if constexpr (sizeof(X) > 1) {
    float largest = 0.0f;
#pragma unroll
    for (int i = 0; i < kSamples; ++i) {
      const int at = sample_at(32 * i + threadIdx.x % 32, count);
      if (at < count) largest = larger(largest, image[at]);
    }
    scale = sampled_scale(__uint_as_float(warp_max(__float_as_uint(largest))));
  }
  if (threadIdx.x % 32 == 0) *to = {scale, threshold / scale};
}

// A filter's eight weights at a unit, split.
__device__ inline void split_unit(const float* filter, const Unit& u, const Dims& d, float scale, uint4* hi,
                                  uint4* lo) {
  uint32_t high[4], low[4];
#pragma unroll
  for (int e = 0; e < 8; e += 2) {
    float v[2];
#pragma unroll
    for (int n = 0; n < 2; ++n) {
      const int c = u.slot.channel + (e + n) % u.slot.channels, q = u.q + (e + n) / u.slot.channels;
      v[n] = c < d.C && q < d.K ? filter[(c * d.K + u.p) * d.K + q] * scale : 0.0f;
    }
    const SplitPair parts = split_pair(v[0], v[1]);
    high[e / 2] = parts.hi, low[e / 2] = parts.lo;
  }
  *hi = make_uint4(high[0], high[1], high[2], high[3]);
  *lo = make_uint4(low[0], low[1], low[2], low[3]);
}

// A block a filter of the tiles, those of padding included; behind them a warp an image.
template <typename X>
__global__ void __launch_bounds__(kPackThreads)
    pack_weights(Dims d, Plan plan, int tiles, bool stacked, const X* __restrict__ x, const float* __restrict__ k,
                 Packed packed) {
  __shared__ unsigned scratch;
  let_next_kernel_begin();
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
  beyond = __syncthreads_or(beyond);
  if (threadIdx.x == 0 && m < d.M) packed.unscale[m] = beyond ? 0.0f : 1.0f / scale;

  const int tile = m / rows_a_tile, in_tile = m % rows_a_tile;
  const int block = tile / tiles, parts = stacked ? 1 : 2;
  // Stacked: warp w's rows 16 w to 16 w + 7 are the high halves of filters 8 w on, the next eight their low halves, so
  // that one lane holds both sums of a filter.
  const int row = stacked ? in_tile / 8 * 16 + in_tile % 8 : in_tile;
  for (int i = threadIdx.x; i < 2 * plan.steps; i += kPackThreads) {
    const int step = i / 2, half = i % 2, chunk = min(step / plan.first_steps, plan.chunk_count - 1);
    uint4 hi = {}, lo = {};
    Unit u;
    if (m < d.M && plan.chunks.unit_at(chunk, step - chunk * plan.first_steps, half, &u))
      split_unit(filter, u, d, scale, &hi, &lo);
    uint8_t* to = packed.tiles + ((1LL * block * plan.steps + step) * tiles + tile % tiles) * parts * kTileBytes;
    *reinterpret_cast<uint4*>(to + row_bytes(row, half)) = hi;
    *reinterpret_cast<uint4*>(to + (stacked ? row_bytes(row + 8, half) : kTileBytes + row_bytes(row, half))) = lo;
  }
}

}  // namespace any_shape
}  // namespace fops
