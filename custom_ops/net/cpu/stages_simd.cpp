// Convolution, map and dense stages on the CPU; compiled once for each instruction set.
//
// A convolution stage runs the kernel of conv/cpu/shifted_simd.cpp for one block of filters at a time, into a buffer of some
// 14 KB, and pools the outputs from there. So the 115 KB of unpooled outputs per image of fa2017 do not leave the
// first-level cache, and only a quarter as many values are written to the stage's output.
#include "conv/cpu/shifted_kernel.h"
#include "net/cpu/map_simd.h"
#include "net/cpu/stages.h"

namespace fops::FOPS_ISA {
namespace {

constexpr int64_t kBandBytes = 512 << 10;  // limit for a band's shifted copies, half of a 1 MB second-level cache

struct Bands {
  fops_conv conv;       // the convolution of one item
  int64_t rows, plane;  // the convolution's output rows per band; floats from one shifted copy to the next
  int64_t rows_out;     // the stage's output rows per band: pooled rows if it pools
  int64_t copies() const { return conv.C * conv.K * plane + kSlack; }
  // Numbers of floats: `copies` for the shifted copies, `unpooled` for the outputs of a block of filters before the
  // pool, and `pooled` for the pool's output of one filter.
  int64_t unpooled() const { return kRows * rows * out_w(conv) + 2 * kLanes; }
  int64_t pooled(const Stage& s) const { return rows_out * s.out.W + 2 * kLanes; }
};

Bands bands(const Stage& s) {
  Bands b = {{1, s.in.C, s.in.H, s.in.W, s.out.C, s.K, FOPS_FLOAT32}, 0, 0, 0};
  const int64_t row_bytes = b.conv.C * b.conv.K * out_w(b.conv) * 4;
  const int64_t room = std::max<int64_t>(1, kBandBytes / row_bytes - (s.K - 1));
  // Bands contain whole windows. Where windows overlap, two bands share rows, and each computes them.
  const int64_t size = s.pool ? s.pool.size : 1, stride = s.pool ? s.pool.stride : 1;
  b.rows_out = std::min(room < size ? 1 : (room - size) / stride + 1, s.out.H);
  b.rows = std::min((b.rows_out - 1) * stride + size, out_h(b.conv));
  b.plane = (b.rows + s.K - 1) * out_w(b.conv);
  return b;
}

int64_t convolution_scratch(const Stage& s) {
  const Bands b = bands(s);
  if (!s.pool) return b.copies();
  const int64_t W = out_w(b.conv);
  return b.copies() + b.unpooled() + b.pooled(s) +
         (s.pool.pairs() ? pairs_scratch(b.rows, W) : windows_scratch(s.pool, W));
}

// Returns the largest number of parts. Parts are blocks of filters if there are enough blocks for all parts, otherwise rows.
// A part has at least four output rows, because neighbouring parts both copy the K - 1 input rows that they share.
int64_t convolution_parts(const Stage& s) {
  return std::max(filter_blocks(s.out.C), std::max<int64_t>(1, s.out.H / 4));
}

void convolution(const Stage& s, const void* x, fops_dtype type, const float* weight, int64_t part, int64_t parts,
                 float* scratch, float* y) {
  const Bands b = bands(s);
  const int64_t W = out_w(b.conv), y_plane = s.out.H * s.out.W;
  const int64_t depth = s.in.C * s.K * s.K, part_of_depth = part_of_sum(depth, s.K) / s.K;
  float *copies = scratch, *unpooled = scratch + b.copies(), *pooled = unpooled + b.unpooled();
  float* pooling = pooled + b.pooled(s);
  memset(copies + b.copies() - kSlack, 0, kSlack * sizeof(float));
  const int64_t blocks = filter_blocks(s.out.C);
  const bool by_rows = blocks < parts;
  const int64_t first = by_rows ? s.out.H * part / parts : 0, last = by_rows ? s.out.H * (part + 1) / parts : s.out.H;
  const int64_t from_block = by_rows ? 0 : blocks * part / parts;
  const int64_t to_block = by_rows ? blocks : blocks * (part + 1) / parts;
  for (int64_t begin = first; begin < last; begin += b.rows_out) {
    const int64_t rows_out = std::min(b.rows_out, last - begin);
    const int64_t h = s.pool ? begin * s.pool.stride : begin;
    const int64_t rows = std::min(s.pool ? (rows_out - 1) * s.pool.stride + s.pool.size : rows_out, out_h(b.conv) - h);
    const int64_t positions = rows * W;
    if (type == FOPS_UINT8)
      shift(b.conv, static_cast<const uint8_t*>(x) + h * s.in.W, rows + s.K - 1, copies, b.plane);
    else
      shift(b.conv, static_cast<const float*>(x) + h * s.in.W, rows + s.K - 1, copies, b.plane);

    const Band band = {s.in.C, s.K, s.out.C, b.plane, W, depth, s.pool ? positions : y_plane, false, part_of_depth};
    for (int64_t block = from_block; block < to_block; ++block) {
      const int64_t m = block_start(band, block), filters = block_start(band, block + 1) - m;
      float* to = s.pool ? unpooled : y + m * y_plane + h * W;
      multiply_block(band, copies, weight, to, block, positions);
      for (int64_t f = 0; f < filters; ++f) {
        float* out = y + (m + f) * y_plane + begin * s.out.W;
        const float* from = unpooled + f * positions;
        if (s.pool.pairs())
          pool_pairs(from, rows, W, pooling, pooled);
        else if (s.pool)
          pool_windows(s.pool, from, rows, W, pooling, pooled, rows_out, s.out.W);
        activate(s.activation, rows_out * s.out.W, s.pool ? pooled : out, out);
      }
    }
  }
}

int64_t map_scratch(const Stage& s) { return s.pool ? windows_scratch(s.pool, s.in.W) : 0; }

// Uses pool_windows for every pool, because pool_pairs reads and writes beyond the ends of its tensors.
void map(const Stage& s, const float* x, float* scratch, float* y) {
  for (int64_t c = 0; s.pool && c < s.in.C; ++c)
    pool_windows(s.pool, x + c * s.in.H * s.in.W, s.in.H, s.in.W, scratch, y + c * s.out.H * s.out.W, s.out.H, s.out.W);
  activate(s.activation, s.out.size(), s.pool ? y : x, y);
}

// Computes y = x w^T. A unit is an output of the layer. The sums of a tile, which has kRows rows and kVectors vectors of
// units, are in registers. Weights are packed by panel, which has at most kVectors vectors of units: for each input, the
// weights of the panel's units are adjacent.
//
// The inputs are divided into parts (base/summation.h). A part is added to the sums of all rows before the next part
// begins. A part has at most kLongest inputs unless the layer is very wide: their weights in a panel take up to 32 KB and
// stay in the first-level cache.
constexpr int64_t kLongest = 128;

int64_t vectors_of(int64_t units) { return (units + kLanes - 1) / kLanes; }
int64_t dense_padded(int64_t units) { return vectors_of(units) * kLanes; }
int64_t dense_panels(int64_t units) { return (vectors_of(units) + kVectors - 1) / kVectors; }
// Returns the first unit of a panel. Panels have nearly equal width: 9 vectors make three panels of 3 vectors if kVectors is
// 4, not two of 4 and one of 1.
int64_t panel_start(int64_t units, int64_t panel) { return vectors_of(units) * panel / dense_panels(units) * kLanes; }

void pack_dense(int64_t units, int64_t inputs, const float* weight, float* packed) {
  for (int64_t panel = 0; panel < dense_panels(units); ++panel) {
    const int64_t from = panel_start(units, panel), to = panel_start(units, panel + 1);
    for (int64_t i = 0; i < inputs; ++i)
      for (int64_t u = from; u < to; ++u) *packed++ = u < units ? weight[u * inputs + i] : 0;
  }
}

// Computes the sums of `depth` inputs for a tile of rows x vectors. Stores them if `first` is true, otherwise adds them to
// `sums`.
template <int rows, int vectors>
void dense_tile(const float* x, int64_t stride, const float* packed, int64_t depth, bool first, float* sums,
                int64_t sums_stride) {
  Vector acc[rows][vectors];
  for (int r = 0; r < rows; ++r)
    for (int v = 0; v < vectors; ++v) acc[r][v] = Vector{};
  for (int64_t i = 0; i < depth; ++i, packed += vectors * kLanes) {
    Vector w[vectors];
    for (int v = 0; v < vectors; ++v) w[v] = load(packed + v * kLanes);
    for (int r = 0; r < rows; ++r)
      for (int v = 0; v < vectors; ++v) acc[r][v] = multiply_add(w[v], x[r * stride + i], acc[r][v]);
  }
  for (int r = 0; r < rows; ++r)
    for (int v = 0; v < vectors; ++v) {
      float* sum = sums + r * sums_stride + v * kLanes;
      store(sum, first ? acc[r][v] : load(sum) + acc[r][v]);
    }
}

using Tile = void (*)(const float*, int64_t, const float*, int64_t, bool, float*, int64_t);

template <int... i>
Tile tile(int rows, int vectors, std::integer_sequence<int, i...>) {
  static constexpr Tile table[] = {dense_tile<i / kVectors + 1, i % kVectors + 1>...};
  return table[(rows - 1) * kVectors + vectors - 1];
}

void dense(const Stage& s, const float* packed, const float* bias, int64_t rows, const float* x, int64_t panel,
           float* scratch, float* y) {
  const int64_t units = s.out.size(), inputs = s.in.size(), stride = dense_padded(units);
  const int64_t from = panel_start(units, panel), width = panel_start(units, panel + 1) - from;
  const int vectors = static_cast<int>(width / kLanes);
  float* sums = scratch + from;
  packed += from * inputs;
  const int64_t part = part_of_sum(inputs, 1, kLongest);
  for (int64_t i = 0; i < inputs; i += part) {
    const int64_t depth = std::min(part, inputs - i);
    for (int64_t r = 0; r < rows; r += kRows) {
      const int count = static_cast<int>(std::min<int64_t>(kRows, rows - r));
      const Tile run = tile(count, vectors, std::make_integer_sequence<int, kRows * kVectors>());
      run(x + r * inputs + i, inputs, packed + i * width, depth, i == 0, sums + r * stride, stride);
    }
  }
  const int64_t real = std::min(width, units - from);  // number of units; the rest of the last vector is padding
  for (int64_t r = 0; r < rows; ++r) {
    float *sum = sums + r * stride, *out = y + r * units + from;
    for (int64_t u = 0; u < real; ++u) out[u] = bias ? sum[u] + bias[from + u] : sum[u];
    activate(s.activation, real, out, out);
  }
}

}  // namespace

const CpuStages stages = {convolution_scratch, convolution_parts, convolution, map_scratch, map,
                          dense_panels,        dense_padded,      pack_dense,  dense};

}  // namespace fops::FOPS_ISA
