// For any_shape.cu: the epilogue, which stores a tile of sums from registers to y.
#pragma once

#include "conv/hopper/fallback.cuh"
#include "conv/hopper/pipeline.cuh"
#include "conv/hopper/variants/any_shape/staging.cuh"
#include "gpu/isa/streaming_store.cuh"

namespace fops::hopper {

struct Position {
  int further, h, w;  // number of its image, counted from the task's first; row and column in the image
  bool real;          // whether the position is an output
  __device__ Position(const Plan& plan, const Dims& d, const Span& span, int position) {
    const int image_pixels = d.H * d.W, at = span.first + position;
    further = plan.by_image ? 0 : at / image_pixels;
    const int pixel = at - further * image_pixels;
    h = pixel / d.W, w = pixel - h * d.W;
    real = (span.image + further < d.B) & (h < d.OH) & (w < d.OW);
  }
  __device__ Position(const Plan& plan, const Dims& d, const StripSpan& span, int position) {
    const Strips& s = plan.strips;
    const int eight = position / 8, row = eight / s.together;
    int strip;
    further = span.further(s, eight - row * s.together, &strip);
    h = span.row + row, w = 8 * strip + position % 8;
    real = (row < s.rows) & (span.image + further < d.B) & (h < d.OH) & (w < d.OW);
  }
};

// The columns of a warpgroup's tile, in shared memory. Aligned, because threads read two columns at a time.
struct alignas(8) Columns {
  int offsets[128],       // offset in y of filter 0's output; -1 if the column is not stored
      corners[128];       // offset in x of the window's first pixel
  float unscale[128];     // factor that undoes the scale of the column's image
  int list[128], listed;  // columns that need the fallback, and their number
  uint32_t fallback;      // number of the last chunk of the latest task with an unsplittable weight, whose outputs all
                          // need the fallback

  // `own`: whether this tile stores the column if it is an output.
  __device__ void place(const Dims& d, int column, const Position& at, bool own, float scale) {
    offsets[column] = own && at.real ? (at.further * d.M * d.OH + at.h) * d.OW + at.w : -1;
    corners[column] = (at.further * d.C * d.H + at.h) * d.W + at.w;
    unscale[column] = 1.0f / scale;
  }
};

// A warp's buffer for outputs before they are stored: 16 filters by 64 positions. A row has 4 more floats, which shifts
// the next row by four banks.
constexpr int kOutgoingStride = 68, kOutgoingFloats = 16 * kOutgoingStride;
constexpr int kTapsStride = 76;  // floats per row for store_taps, where a warpgroup has 32 rows of 72 positions
static_assert(32 * kTapsStride <= 4 * kOutgoingFloats, "");
static_assert(kOutgoingBytes == 4 * kOutgoingFloats * kConsumerThreads / 32, "");

struct Pair {
  int2 at;                     // their offsets in y for filter 0, or -1
  float2 unscale;              // factors that undo the scales of their images
  bool vector, first, second;  // whether to store both with 8 bytes; otherwise whether to store the first, the second
  __device__ Pair(const Dims& d, const Columns& columns, int column, bool used, const float* out)
      : at(*reinterpret_cast<const int2*>(columns.offsets + column)),
        unscale(*reinterpret_cast<const float2*>(columns.unscale + column)) {
    if (!used) at.x = at.y = -1;
    const bool pair = at.x >= 0 && at.y == at.x + 1;
    vector = pair && d.OH * d.OW % 2 == 0 && reinterpret_cast<uintptr_t>(out + at.x) % 8 == 0;
    first = !vector && at.x >= 0, second = !vector && at.y >= 0;
  }
  // Stores the two outputs of a filter if `valid`. `to`: address of the first one. Uses predicates, because branches
  // took most of the epilogue's time.
  __device__ void store(bool valid, float* to, float2 v) const {
    store_streaming_if(valid && vector, to, v);
    store_streaming_if(valid && first, to, v.x);
    store_streaming_if(valid && second, to + (at.y - at.x), v.y);
  }
};

// Scales and stores a warp's outputs: kRows filters from m_warp on, for which lane i has the factor `unscale` of filter
// m_warp + i. The outputs go through shared memory, so that a warp stores 256 contiguous bytes of a filter. value(i)
// returns the sum in register i of a wgmma with kColumns columns.
template <int kRows, int kColumns, typename Value>
__device__ __forceinline__ void store_tile(const Dims& d, const Columns& columns, float unscale, int m_warp, float* out,
                                           float* outgoing_all, Value value) {
  constexpr int kRun = kColumns < 64 ? kColumns : 64;  // columns stored at a time
  const int lane = threadIdx.x % 32, g = lane / 4, t = lane % 4;
  float* outgoing = outgoing_all + (threadIdx.x / 32) * kOutgoingFloats;
#pragma unroll
  for (int begin = 0; begin < kColumns; begin += kRun) {
    const int run = kRun < kColumns - begin ? kRun : kColumns - begin;
#pragma unroll
    for (int r = 0; r < kRows / 8; ++r)
#pragma unroll
      for (int j = 0; j < kRun / 8; ++j) {
        if (8 * j >= run) continue;  // not in the loop's condition, because the loop must be unrolled
        const int i = 4 * (begin / 8 + j) + 2 * r;
        *reinterpret_cast<float2*>(outgoing + (8 * r + g) * kOutgoingStride + 8 * j + 2 * t) =
            make_float2(value(i), value(i + 1));
      }
    __syncwarp();
    const bool used = 2 * lane < run;
    const Pair pair(d, columns, begin + (used ? 2 * lane : 0), used, out);
    float* to = out + 1LL * m_warp * d.OH * d.OW + pair.at.x;
#pragma unroll
    for (int row0 = 0; row0 < kRows; row0 += 8) {
      float2 v[8];
#pragma unroll
      for (int row = 0; row < 8; ++row) {
        v[row] = *reinterpret_cast<const float2*>(outgoing + (row0 + row) * kOutgoingStride + 2 * lane);
        const float of_row = __shfl_sync(0xffffffffu, unscale, row0 + row);
        v[row].x = v[row].x * of_row * pair.unscale.x, v[row].y = v[row].y * of_row * pair.unscale.y;
      }
      const int real = min(8, d.M - m_warp - row0);
#pragma unroll
      for (int row = 0; row < 8; ++row, to += d.OH * d.OW) pair.store(row < real, to, v[row]);
    }
    __syncwarp();
  }
}

// Does the same for tiles whose rows have kTaps taps: first adds up the rows of a filter, that of each tap from `shift`
// columns further right than that of the previous tap. The four warps of a warpgroup exchange their rows; then each
// adds and stores a quarter of the filters.
template <int kTaps, int kColumns, typename Value>
__device__ __forceinline__ void store_taps(const Dims& d, const Columns& columns, float unscale, int m_warp, float* out,
                                           float* outgoing_all, int shift, Value value) {
  constexpr int kRun = kColumns < 64 ? kColumns : 64, kFilters = kTileRows / 2 / kTaps, kPerWarp = kFilters / 4;
  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32 % 4, g = lane / 4, t = lane % 4;
  const int team = threadIdx.x / 128;
  float* outgoing = outgoing_all + 4 * team * kOutgoingFloats;  // [tap][filter][column]
#pragma unroll
  for (int begin = 0; begin < kColumns; begin += kRun) {
    // Stores eight columns more than the run has, because sums need columns up to there.
#pragma unroll
    for (int j = 0; j < kRun / 8 + 1; ++j) {
      if (begin + 8 * j >= kColumns) continue;
      const int i = 4 * (begin / 8 + j);
      *reinterpret_cast<float2*>(outgoing + (8 * warp + g) * kTapsStride + 8 * j + 2 * t) =
          make_float2(value(i), value(i + 1));
    }
    named_barrier(kAnyShapeConsumers + team, 128);
    const bool used = 2 * lane < kRun && begin + 2 * lane < kColumns;
    const int column = used ? 2 * lane : 0;
    const Pair pair(d, columns, begin + column, used, out);
#pragma unroll
    for (int n = 0; n < kPerWarp; ++n) {
      float2 v = {};
#pragma unroll
      for (int tap = 0; tap < kTaps; ++tap) {
        const float* from = outgoing + (tap * kFilters + warp * kPerWarp + n) * kTapsStride + column + tap * shift;
        v.x += from[0], v.y += from[1];
      }
      const float of_row = __shfl_sync(0xffffffffu, unscale, n);
      const int m = m_warp + n;
      pair.store(m < d.M, out + 1LL * m * d.OH * d.OW + pair.at.x,
                 make_float2(v.x * of_row * pair.unscale.x, v.y * of_row * pair.unscale.y));
    }
    named_barrier(kAnyShapeConsumers + team, 128);
  }
}

}  // namespace fops::hopper
