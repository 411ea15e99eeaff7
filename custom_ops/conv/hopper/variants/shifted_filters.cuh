// For shifted_filters.cu and shifted_filters_pipelined.cu: the tiling, the weights as operands, and the staging of a
// band.
#pragma once

#include "conv/cuda/dims.h"
#include "gpu/divide.cuh"
#include "gpu/isa/bulk_copy.cuh"
#include "gpu/isa/halves.cuh"
#include "gpu/isa/shared_memory.cuh"
#include "gpu/largest.cuh"

namespace fops {
namespace shifted_filters {

// Returns the number of neighbouring outputs of a row that 8 pixels serve. A column of the product is so many outputs.
__host__ __device__ constexpr int shifts(int K) { return 9 - K; }
// Returns the number of filters per 64 rows of a wgmma: a filter has one row per shift.
__host__ __device__ constexpr int tile_filters(int K) { return 64 / shifts(K); }
// Returns the number of steps: K units of 8 pixels, two per step.
__host__ __device__ constexpr int steps(int K) { return (K + 1) / 2; }
// Returns the number of units in a run. A thread computes a run of overlapping units together, and rounds each pixel
// once.
__host__ __device__ constexpr int run(int K) { return K == 7 ? 4 : 2; }

constexpr int kAhead = 2;  // number of bands whose original pixels are in shared memory

// A block computes one part of the filters. Its tasks are pieces of bands.
struct Tiling {
  int filters, parts;  // number of filters of y; number of parts, of d.M filters each
  bool two;            // whether the two warpgroups have different filters of a part; otherwise different columns
  int split;           // if `two`: number of filters of the first warpgroup
  int rows, bands;     // output rows per band; bands per image
  int per_row;         // columns per row
  int front;           // 16-byte words before the original pixels: for the units of two bands, at first for the weights
  int raw;             // pixels of a band, rounded up
  int runs;            // runs per row: see run()
  int slices, turns;   // pieces of a band; turns of a piece
  unsigned tasks;      // number of tasks: bands of all images, times pieces
  bool vector_in, vector_out;  // whether TMA can load bands; whether y begins on a 16-byte boundary
  uint32_t inverse_runs;
  Divisor by_bands, by_slices;
  __host__ __device__ int units(int K) const { return (rows + K - 1) * per_row; }
};

template <int kThreads, typename X>
__device__ void fetch(const X* source, int count, X* waiting) {
#pragma unroll 4
  for (int i = threadIdx.x; i < count; i += kThreads) waiting[i] = source[i];
}

// Stages the units of the `count` pixels in `waiting` (an even number). A unit is 8 neighbouring pixels, scaled and
// rounded to halves; one begins at every shifts(K)-th pixel of a row. If kResidue, also stores the rounding errors in
// `lo`. Pixels past the last one are zeros. Returns whether this thread's pixels are all exact in half precision.
template <int K, bool kResidue, int kThreads, typename X>
__device__ bool stage(const Tiling& tiling, int W, const X* waiting, int count, float scale, uint4* hi, uint4* lo,
                      int thread = threadIdx.x) {
  constexpr int kRun = run(K), kStep = shifts(K) / 2, kWords = 4 + (kRun - 1) * kStep;
  bool exact = true;
  for (int i = thread; i < (tiling.rows + K - 1) * tiling.runs; i += kThreads) {
    const int row = divide(i, tiling.inverse_runs), column = (i - row * tiling.runs) * kRun;
    const int first = row * W + column * shifts(K);
    uint32_t high[kWords], low[kWords];
#pragma unroll
    for (int w = 0; w < kWords; ++w) {
      float a = 0.0f, b = 0.0f;
      if (first + 2 * w < count) {
        const X* two = waiting + first + 2 * w;
        if constexpr (sizeof(X) == 4) {
          const float2 v = *reinterpret_cast<const float2*>(two);
          a = v.x * scale, b = v.y * scale;
        } else {
          const uchar2 v = *reinterpret_cast<const uchar2*>(two);
          a = v.x * scale, b = v.y * scale;
        }
      }
      const __half2 rounded = __floats2half2_rn(a, b);
      const float rest_a = a - __low2float(rounded), rest_b = b - __high2float(rounded);
      exact = rest_a == 0.0f && rest_b == 0.0f && exact;  // false for infinities and NaN too
      high[w] = bits(rounded);
      if (kResidue) low[w] = bits(__floats2half2_rn(rest_a * kLowScale, rest_b * kLowScale));
    }
    const int unit = row * tiling.per_row + column;
#pragma unroll
    for (int u = 0; u < kRun; ++u) {
      if (column + u >= tiling.per_row) break;
      store_shared(reinterpret_cast<uint32_t*>(hi + unit + u), high + u * kStep);
      if (kResidue) store_shared(reinterpret_cast<uint32_t*>(lo + unit + u), low + u * kStep);
    }
  }
  return exact;
}

// The filter, and the output of a column, to which row g of a warp's rows belongs. Row g + 8 is the next output.
template <int K>
struct Row {
  int filter, shift;
  __device__ Row(int warp, int g)
      : filter(shifts(K) == 4 ? warp * 4 + g / 2 : warp * 8 + g), shift(shifts(K) == 4 ? g % 2 * 2 : 0) {}
};

// Splits this lane's weights as operands A. `k`: the weights from the tile's first filter on, in shared memory;
// `filters`: the number of filters of the tile.
template <int K>
__device__ void load_weights(const float* k, int filters, float scale, uint32_t (&hi)[steps(K)][4],
                             uint32_t (&lo)[steps(K)][4]) {
  const int lane = threadIdx.x % 32, t = lane % 4;
  const Row<K> row(threadIdx.x / 32 % 4, lane / 4);
#pragma unroll
  for (int s = 0; s < steps(K); ++s)
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const int p = 2 * s + i / 2, q = 2 * t - row.shift - i % 2;
      const bool real = row.filter < filters && p < K;
      const float* taps = k + (row.filter * K + p) * K + q;
      const SplitPair pair = split_pair(real && q >= 0 && q < K ? taps[0] * scale : 0.0f,
                                        real && q + 1 >= 0 && q + 1 < K ? taps[1] * scale : 0.0f);
      hi[s][i] = pair.hi, lo[s][i] = pair.lo;
    }
}

}  // namespace shifted_filters

// Runs the kernel of shifted_filters_pipelined.cu, and sets *taken to true, if it supports the layer and there are
// enough images. The results have the same bits.
fops_status run_shifted_filters_pipelined(const fops_conv&, const shifted_filters::Tiling&, const void* x,
                                          const float* k, float* y, cudaStream_t, bool* taken);

}  // namespace fops
