// quad_columns.cu: a band of an image from global to shared memory, the weights as operands, and the products.
#pragma once

#include "conv/hopper/pipeline.cuh"
#include "gpu/isa/halves.cuh"
#include "gpu/isa/mma.cuh"

namespace fops {
namespace quad_columns {

constexpr int kWarps = 4;
constexpr int kThreads = 32 * kWarps;
constexpr int kShifts = 4;   // neighbouring outputs per column
constexpr int kColumns = 8;  // columns of an mma: a warp computes 32 outputs of a filter at a time

// A column's patch: the pixels that its outputs use, K + kTwoRows rows of K + 3, in pairs (x[2i], x[2i + 1]), each one
// register of two halves. Columns begin at every fourth pixel, so that every pixel is in only one pair.
__host__ __device__ constexpr int pairs_per_row(int K) { return (K + kShifts) / 2; }
__host__ __device__ constexpr int patch_rows(int K, bool two_rows) { return K + two_rows; }
// mma steps of 8 pairs: 3 for K = 5, 5 for K = 7, with one row of outputs or two.
__host__ __device__ constexpr int steps(int K) { return ((K + 1) * pairs_per_row(K) + 7) / 8; }

// Which pair of a column is operand i of lane t. A lane has two runs of neighbouring pairs:
//
//   K = 7, eight rows   all of row t, then all of row 4 + t
//   K = 5, six rows     all of row t, then one half of row 4 + t / 2
template <int K>
struct PairOf {
  static constexpr int kRun = pairs_per_row(K);  // pairs of the first run
  int row, at;
  __device__ PairOf(int t, int i)
      : row(i < kRun ? t : K == 7 ? 4 + t : 4 + t / 2), at(i < kRun ? i : K == 7 ? i - kRun : t % 2 * 2 + i - kRun) {}
};

template <typename X>
struct alignas(4 * sizeof(X)) Four {
  X at[4];
};

// Whether images wait in shared memory: then they are loaded from L2 while the previous band is multiplied.
template <typename X>
constexpr bool kWaits = sizeof(X) == sizeof(float);

// Copies `count` pixels to where they wait. Every thread copies the pixels that it stages itself, so no barrier is
// needed.
template <typename X>
__device__ void fetch(const X* source, int count, X* waiting) {
  for (int i = 4 * threadIdx.x; i < count; i += 4 * kThreads)
    copy_async_16(reinterpret_cast<__half*>(waiting + i), reinterpret_cast<const __half*>(source + i), true);
}

// Stages `count` pixels (even) as pairs, in memory order, scaled and rounded to half, and with kResidue also the
// rounding residue. `pad` words of zeros follow, which patches of the last rows and columns multiply with zero weights.
// Returns whether all values that this thread saw are exact in half.
template <bool kResidue, typename X>
__device__ __forceinline__ bool stage(const X* source, int count, int pad, bool vector, float scale, uint32_t* hi,
                                      uint32_t* lo) {
  uint32_t rests = 0;  // the bits of all rounding residues; nonzero for infinities and NaN too
  const auto put = [&](float a, float b, int word) {
    const float va = a * scale, vb = b * scale;
    const __half2 rounded = __floats2half2_rn(va, vb);
    const float rest_a = va - __low2float(rounded), rest_b = vb - __high2float(rounded);
    rests |= __float_as_uint(rest_a) | __float_as_uint(rest_b);
    hi[word] = bits(rounded);
    if (kResidue) lo[word] = bits(__floats2half2_rn(rest_a * kLowScale, rest_b * kLowScale));
  };
  if (vector) {
#pragma unroll 4
    for (int i = 4 * threadIdx.x; i < count; i += 4 * kThreads) {
      const Four<X> v = *reinterpret_cast<const Four<X>*>(source + i);
      put(static_cast<float>(v.at[0]), static_cast<float>(v.at[1]), i / 2);
      put(static_cast<float>(v.at[2]), static_cast<float>(v.at[3]), i / 2 + 1);
    }
  } else {
    for (int i = 2 * threadIdx.x; i < count; i += 2 * kThreads)
      put(static_cast<float>(source[i]), static_cast<float>(source[i + 1]), i / 2);
  }
  for (int i = threadIdx.x; i < pad; i += kThreads) {
    hi[count / 2 + i] = 0;
    if (kResidue) lo[count / 2 + i] = 0;
  }
  return rests == 0;
}

// The filter, and which of two output rows, of row g of the products' filter tile.
template <bool kTwoRows>
struct Row {
  int filter, below;
  __device__ Row(int tile, int g) : filter(kTwoRows ? g % 4 : tile * 8 + g), below(kTwoRows ? g / 4 : 0) {}
};

// This lane's operands: tile s holds the weights of the outputs s to the right of a column's first.
template <int K, bool kTwoRows>
__device__ void load_weights(const float* k, int M, int tile, float scale, bool half,
                             uint32_t (&weights)[kShifts][steps(K)][4]) {
  const int lane = threadIdx.x % 32, g = lane / 4, t = lane % 4;
  const Row<kTwoRows> row(tile, g);
#pragma unroll
  for (int s = 0; s < kShifts; ++s)
#pragma unroll
    for (int i = 0; i < 2 * steps(K); ++i) {
      const PairOf<K> pair(t, i);
      const int p = pair.row - row.below, q = pair.at * 2 - s;
      const bool real = row.filter < M && p >= 0 && p < K;
      const float* taps = k + (row.filter * K + p) * K + q;
      const Split a = split_enlarged(real && q >= 0 && q < K ? taps[0] * scale : 0.0f);
      const Split b = split_enlarged(real && q + 1 >= 0 && q + 1 < K ? taps[1] * scale : 0.0f);
      weights[s][i / 2][i % 2 * 2] = pack(a.hi, b.hi);
      weights[s][i / 2][i % 2 * 2 + 1] = half ? 0 : pack(a.lo, b.lo);
    }
}

// A band's outputs as columns of four, row after row (kTwoRows: pair of rows after pair).
struct Columns {
  int OW, words_per_row;  // width of the output, and of a row of staged pairs
  int per_row;            // columns per row
  int count, rows;        // columns and rows of the band
};

// A lane's column, which advances one turn at a time: an address, without a division in the loop.
struct ColumnCursor {
  int in_row;     // the column in its row
  unsigned at;    // bytes from the beginning
  int further;    // columns of a turn beyond whole rows,
  unsigned jump;  // and their bytes in memory
  unsigned back;  // bytes that the end of a row adds
  int per_row;

  __device__ ColumnCursor(int column, int step, int per_row, unsigned unit, unsigned line)
      : in_row(column % per_row), at(column / per_row * line + column % per_row * unit), further(step % per_row),
        jump(step / per_row * line + step % per_row * unit), back(line - per_row * unit), per_row(per_row) {}
  __device__ void advance() {
    in_row += further, at += jump;
    if (in_row >= per_row) in_row -= per_row, at += back;
  }
};

// The products of a band, from staged pixels to outputs, with filters `plane` floats apart. Lane 4g + t ends with row
// g's outputs in columns t and t + 4 of eight, 16 bytes each (kVector: one store). `first`, `step`: which columns are
// this warp's.
template <bool kExact, bool kVector, int K, bool kTwoRows>
__device__ __forceinline__ void multiply(const uint32_t (&weights)[kShifts][steps(K)][4], const Columns& columns,
                                         int tile, int M, float unscale, float rescale, const uint32_t* hi,
                                         const uint32_t* lo, float* to_band, int plane, int first, int step) {
  constexpr int kSteps = steps(K), kLines = kTwoRows ? 2 : 1;
  // The tensor cores truncate a sum once per 8 products. Chains added up in float32 stay within the bound
  // (docs/precision.md): 25 or 49 products, for which truncation is the only error of exact pixels.
  constexpr int kChains = kExact ? (K == 7 ? 2 : 1) : 3, kChain = (kSteps + kChains - 1) / kChains;
  using Pair = PairOf<K>;
  const int lane = threadIdx.x % 32, g = lane / 4, t = lane % 4;
  const Row<kTwoRows> row(tile, g);
  // This lane's two runs of pairs, from a column's corner, in bytes. A row past the last has zero weights.
  const auto run = [&](const Pair& pair) {
    return 4 * (min(pair.row, patch_rows(K, kTwoRows) - 1) * columns.words_per_row + pair.at);
  };
  const int run_0 = run(Pair(t, 0)), run_1 = run(Pair(t, Pair::kRun));
  const unsigned line = 4 * kLines * columns.words_per_row;
  ColumnCursor from(first + g % 2 * 4 + g / 2, step, columns.per_row, 8, line);
  // Columns past the last read its pixels, and are not stored.
  const unsigned last = (columns.count / columns.per_row - 1) * line + (columns.per_row - 1) * 8;
  const auto load = [&](const uint32_t* words, uint32_t(&in)[2 * kSteps]) {
    const char* corner = reinterpret_cast<const char*>(words) + min(from.at, last);
#pragma unroll
    for (int i = 0; i < 2 * kSteps; ++i)
      in[i] = *reinterpret_cast<const uint32_t*>(i < Pair::kRun ? corner + run_0 + 4 * i
                                                                : corner + run_1 + 4 * (i - Pair::kRun));
  };
  char* out = reinterpret_cast<char*>(to_band + row.filter * plane + row.below * columns.OW);
  const unsigned out_line = 4 * kLines * columns.OW;
  ColumnCursor to[2] = {{first + t, step, columns.per_row, 4 * kShifts, out_line},
               {first + t + 4, step, columns.per_row, 4 * kShifts, out_line}};
  // With an odd number of rows the last pair lacks the lower one.
  int left = (row.filter >= M ? 0 : columns.count - (row.below && columns.rows % 2 ? columns.per_row : 0)) - first - t;

  uint32_t in[2 * kSteps], rest[2 * kSteps];
  load(hi, in);
  for (int at = first; at < columns.count; at += step, left -= step) {
    if (!kExact) load(lo, rest);
    float high[kShifts][2], low[kShifts][2];
#pragma unroll
    for (int s = 0; s < kShifts; ++s) {
      float sum[kChains][4], small[4] = {};  // small: for the pixels' low halves
#pragma unroll
      for (int i = 0; i < kSteps; ++i) {
        if (!kExact) mma(small, weights[s][i], rest[2 * i], rest[2 * i + 1]);
        if (i % kChain == 0) mma_first(sum[i / kChain], weights[s][i], in[2 * i], in[2 * i + 1]);
        else mma(sum[i / kChain], weights[s][i], in[2 * i], in[2 * i + 1]);
      }
#pragma unroll
      for (int e = 0; e < 2; ++e) {
        high[s][e] = sum[0][e], low[s][e] = sum[0][e + 2];
#pragma unroll
        for (int chain = 1; chain < kChains; ++chain) high[s][e] += sum[chain][e], low[s][e] += sum[chain][e + 2];
        if (!kExact) low[s][e] += small[e] + small[e + 2] * (1.0f / kLowScale);
      }
    }
    // The next columns' pixels are in flight while this column's sums are combined.
    from.advance();
    load(hi, in);
#pragma unroll
    for (int e = 0; e < 2; ++e) {
      float v[kShifts];
#pragma unroll
      for (int s = 0; s < kShifts; ++s) {
        v[s] = (high[s][e] + low[s][e] * (1.0f / kLowScale)) * unscale;
        if (!kExact) v[s] *= rescale;
      }
      float* target = reinterpret_cast<float*>(out + to[e].at);
      to[e].advance();
      if (kVector) {
        // Evict-first: see pixel_columns.cuh.
        if (left > 4 * e) __stcs(reinterpret_cast<float4*>(target), make_float4(v[0], v[1], v[2], v[3]));
      } else {
#pragma unroll
        for (int s = 0; s < kShifts; ++s)
          if (left > 4 * e) target[s] = v[s];
      }
    }
  }
}

}  // namespace quad_columns
}  // namespace fops
