// For quad_columns.cu: staging of a band of an image, the weights as operands, and the products.
#pragma once

#include "gpu/isa/bulk_copy.cuh"
#include "gpu/isa/halves.cuh"
#include "gpu/isa/mma.cuh"

namespace fops::quad_columns {

constexpr int kWarps = 4;
constexpr int kThreads = 32 * kWarps;
constexpr int kShifts = 4;   // neighbouring outputs per column
constexpr int kColumns = 8;  // columns of an mma; so a warp computes 32 outputs of a filter at a time

// The patch of a column is the pixels that its outputs use: K + kTwoRows rows of K + 3 pixels, in pairs (x[2i], x[2i +
// 1]), which are two halves in a register. Columns begin at every fourth pixel, so a pixel is in only one pair.
__host__ __device__ constexpr int pairs_per_row(int K) { return (K + kShifts) / 2; }
__host__ __device__ constexpr int patch_rows(int K, bool two_rows) { return K + two_rows; }
// Returns the number of mma steps, of 8 pairs each: 3 for K = 5, and 5 for K = 7, with one or two rows of outputs.
__host__ __device__ constexpr int steps(int K) { return ((K + 1) * pairs_per_row(K) + 7) / 8; }

// The pair of a patch that is operand i of lane t: its row, and its number in the row. A lane has two runs of
// neighbouring pairs:
//
//   K = 7, eight rows   all pairs of row t, then all pairs of row 4 + t
//   K = 5, six rows     all pairs of row t, then half of the pairs of row 4 + t / 2
template <int K>
struct PairOf {
  static constexpr int kRun = pairs_per_row(K);  // number of pairs of the first run
  int row, at;
  __device__ PairOf(int t, int i)
      : row(i < kRun ? t
            : K == 7 ? 4 + t
                     : 4 + t / 2),
        at(i < kRun ? i
           : K == 7 ? i - kRun
                    : t % 2 * 2 + i - kRun) {}
};

// Whether the original pixels of the next band are copied to shared memory while a band is multiplied.
template <typename X>
constexpr bool kWaits = sizeof(X) == sizeof(float);

// Starts copies of `count` pixels to `waiting`. A thread copies the pixels that it will stage, so no barrier is needed.
template <typename X>
__device__ void fetch(const X* source, int count, X* waiting) {
  for (int i = 4 * threadIdx.x; i < count; i += 4 * kThreads)
    copy_async_16(reinterpret_cast<__half*>(waiting + i), reinterpret_cast<const __half*>(source + i), true);
}

// Stages `count` pixels, an even number, as pairs in their order in memory, scaled and rounded to halves. If kResidue,
// also stores the rounding errors in `lo`. They are followed by `pad` words of zeros, which are in patches of the last
// rows and columns, with zero weights. Returns whether this thread's values are all exact in half precision.
template <bool kResidue, typename X>
__device__ __forceinline__ bool stage(const X* source, int count, int pad, bool vector, float scale, uint32_t* hi,
                                      uint32_t* lo) {
  uint32_t rests = 0;  // bitwise or of the rounding errors; nonzero for infinities and NaN too
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

// The filter of row g of a tile, and whether the row computes the lower one (below = 1) of two output rows.
template <bool kTwoRows>
struct Row {
  int filter, below;
  __device__ Row(int tile, int g) : filter(kTwoRows ? g % 4 : tile * 8 + g), below(kTwoRows ? g / 4 : 0) {}
};

// Splits this lane's weights as operands A: weights[s] is for the output s to the right of a column's first. `half`:
// whether low parts are set to zero.
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

// A band's outputs as columns of four, one row after another (if kTwoRows, one pair of rows after another).
struct Columns {
  int OW, words_per_row;  // width of the output, and of a row of staged pairs
  int per_row;            // columns per row
  int count, rows;        // columns and rows of the band
};

// The position of a lane's column in memory, which advances by a turn at a time without a division.
struct ColumnCursor {
  int in_row;     // number of the column in its row
  unsigned at;    // byte offset from the band's beginning
  int further;    // columns of a turn that exceed whole rows
  unsigned jump;  // bytes of a turn
  unsigned back;  // bytes that are added at the end of a row
  int per_row;    // columns per row

  __device__ ColumnCursor(int column, int step, int per_row, unsigned unit, unsigned line)
      : in_row(column % per_row), at(column / per_row * line + column % per_row * unit), further(step % per_row),
        jump(step / per_row * line + step % per_row * unit), back(line - per_row * unit), per_row(per_row) {}
  __device__ void advance() {
    in_row += further, at += jump;
    if (in_row >= per_row) in_row -= per_row, at += back;
  }
};

// Computes a warp's outputs of a band from staged pixels, and stores them at `to_band`, where filters are `plane`
// floats apart. The warp's groups of eight columns begin at `first`, `first` + `step` and so on. Lane 4g + t has row
// g's outputs in columns t and t + 4 of eight, four outputs each (kVector: stored with 16 bytes).
template <bool kExact, bool kVector, int K, bool kTwoRows>
__device__ __forceinline__ void multiply(const uint32_t (&weights)[kShifts][steps(K)][4], const Columns& columns,
                                         int tile, int M, float unscale, float rescale, const uint32_t* hi,
                                         const uint32_t* lo, float* to_band, int plane, int first, int step) {
  constexpr int kSteps = steps(K), kLines = kTwoRows ? 2 : 1;
  // Number of chains whose sums are added in float32, and steps per chain: the tensor cores truncate a sum once per 8
  // products, so chains must be short to keep the bound (docs/precision.md). For exact pixels truncation is the only
  // error, so fewer chains are enough.
  constexpr int kChains = kExact ? (K == 7 ? 2 : 1) : 3, kChain = (kSteps + kChains - 1) / kChains;
  using Pair = PairOf<K>;
  const int lane = threadIdx.x % 32, g = lane / 4, t = lane % 4;
  const Row<kTwoRows> row(tile, g);
  // Returns the byte offset of a run of pairs from a column's first pixel. Rows past the last one have zero weights.
  const auto run = [&](const Pair& pair) {
    return 4 * (min(pair.row, patch_rows(K, kTwoRows) - 1) * columns.words_per_row + pair.at);
  };
  const int run_0 = run(Pair(t, 0)), run_1 = run(Pair(t, Pair::kRun));
  const unsigned line = 4 * kLines * columns.words_per_row;
  ColumnCursor from(first + g % 2 * 4 + g / 2, step, columns.per_row, 8, line);
  // Columns past the last one read its pixels, and are not stored.
  const unsigned last = (columns.count / columns.per_row - 1) * line + (columns.per_row - 1) * 8;
  const auto load = [&](const uint32_t* words, uint32_t (&in)[2 * kSteps]) {
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
  // The number of columns from this lane's first on. With an odd number of rows, the last pair of rows has no lower
  // row.
  int left = (row.filter >= M ? 0 : columns.count - (row.below && columns.rows % 2 ? columns.per_row : 0)) - first - t;

  uint32_t in[2 * kSteps], rest[2 * kSteps];
  load(hi, in);
  for (int at = first; at < columns.count; at += step, left -= step) {
    if (!kExact) load(lo, rest);
    float high[kShifts][2], low[kShifts][2];
#pragma unroll
    for (int s = 0; s < kShifts; ++s) {
      float sum[kChains][4], small[4] = {};  // products with the pixels' high parts; with their low parts
#pragma unroll
      for (int i = 0; i < kSteps; ++i) {
        if (!kExact) mma(small, weights[s][i], rest[2 * i], rest[2 * i + 1]);
        mma_chain(i % kChain == 0, sum[i / kChain], weights[s][i], in[2 * i], in[2 * i + 1]);
      }
#pragma unroll
      for (int e = 0; e < 2; ++e) {
        high[s][e] = sum[0][e], low[s][e] = sum[0][e + 2];
#pragma unroll
        for (int chain = 1; chain < kChains; ++chain) high[s][e] += sum[chain][e], low[s][e] += sum[chain][e + 2];
        if (!kExact) low[s][e] += small[e] + small[e + 2] * (1.0f / kLowScale);
      }
    }
    // Starts loading the next columns' pixels, which overlaps with combining these columns' sums.
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
        // Evict first: see pixel_columns.cuh.
        if (left > 4 * e) __stcs(reinterpret_cast<float4*>(target), make_float4(v[0], v[1], v[2], v[3]));
      } else {
#pragma unroll
        for (int s = 0; s < kShifts; ++s)
          if (left > 4 * e) target[s] = v[s];
      }
    }
  }
}

}  // namespace fops::quad_columns
