// For any_shape.cu: the kernel that splits the weights, lays them out as wgmma reads them, and chooses a scale for
// every image.
#pragma once

#include "conv/cuda/dims.h"
#include "conv/hopper/split.cuh"
#include "conv/hopper/variants/any_shape/launch.h"
#include "gpu/band_scale.cuh"
#include "gpu/isa/dependents.cuh"

namespace fops::hopper {

constexpr int kPackThreads = 512;
constexpr int kImagesPerBlock = kPackThreads / 32;

// The first blocks of the grid pack one filter each, padding filters included; in the remaining blocks each warp
// chooses the scale of one image. The launch bound limits a thread to 32 registers: see kernel.cuh.
template <typename X>
__global__ void __launch_bounds__(kPackThreads, 4)
    pack_weights(const __grid_constant__ Dims d, const __grid_constant__ Plan plan, const __grid_constant__ Steps steps,
                 int tiles, int rows_of_taps, const X* __restrict__ x, const float* __restrict__ k, Packed packed) {
  __shared__ unsigned scratch;
  let_next_kernel_begin();
  const int rows_per_tile = rows_of_taps > 0 ? kTileRows / 2 / rows_of_taps : kTileRows;
  const int filters = plan.blocks * tiles * rows_per_tile;
  const int m = blockIdx.x;
  if (m >= filters) {
    const long long image = 1LL * (m - filters) * kImagesPerBlock + threadIdx.x / 32;
    const int count = d.C * d.H * d.W;
    if (image < d.B) choose_scale(x + image * count, count, plan.threshold, packed.images + image);
    return;
  }

  const int taps = d.C * d.K * d.K;
  const float* filter = k + 1LL * m * taps;
  const auto [scale, fits] = weight_scale(filter, m < d.M ? taps : 0, plan.threshold, kPackThreads, &scratch);
  if (threadIdx.x == 0 && m < d.M) packed.unscale[m] = fits ? 1.0f / scale : 0.0f;

  const int tile = m / rows_per_tile, in_tile = m % rows_per_tile;
  const int block = tile / tiles, parts = rows_of_taps > 0 ? 1 : 2, places = max(1, rows_of_taps);
  for (int i = threadIdx.x; i < 2 * plan.steps * places; i += kPackThreads) {
    const int tap = i % places, step = i / places / 2, half = i / places % 2;
    const int chunk = min(step / plan.first_steps, plan.chunk_count - 1);
    uint4 hi = {}, lo = {};
    const int in_chunk = step - chunk * plan.first_steps;
    const uint16_t origin = steps.origins[chunk == plan.chunk_count - 1][2 * in_chunk + half];
    if (m < d.M && origin != kNoUnit) {
      const int channel = plan.chunks.slot(chunk * plan.chunks.per_chunk).channel + (origin >> 8);
      const int q = (origin & 15) + tap * plan.chunks.shift;
      const int channels = channel < 8 * plan.chunks.full ? 8 : plan.chunks.narrow;
      split_unit(filter, channel, origin >> 4 & 15, q, channels, d, scale, &hi, &lo);
    }
    // In a stacked tile, rows 16 w to 16 w + 7 (of warp w) are high parts, and the next eight rows are the low parts of
    // the same filters, so that a lane has both sums. The rows of a tap are all filters of the tile; then come those of
    // the next tap.
    const int stacked = tap * rows_per_tile + in_tile,
              row = rows_of_taps > 0 ? stacked / 8 * 16 + stacked % 8 : in_tile;
    uint8_t* to = packed.tiles + ((1LL * block * plan.steps + step) * tiles + tile % tiles) * parts * kTileBytes;
    *reinterpret_cast<uint4*>(to + row_bytes(row, half)) = hi;
    *reinterpret_cast<uint4*>(to + (rows_of_taps > 0 ? row_bytes(row + 8, half) : kTileBytes + row_bytes(row, half))) =
        lo;
  }
}

}  // namespace fops::hopper
