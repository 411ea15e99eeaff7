// The matrix product of tiles_simd.cpp: how a band's activations and all filters lie in memory, and the sums of one
// block of outputs. The head of tiles_simd.cpp explains it.
#pragma once

#include <algorithm>
#include <utility>
#include <vector>

#include "base/tiles.h"
#include "conv/cpu/split.h"
#include "conv/kernel.h"

namespace fops {
namespace FOPS_ISA {

constexpr int kBlockTiles = 4;                           // tiles of outputs in registers, side by side
constexpr int64_t kBlock = kBlockTiles * kTileColumns;   // output positions
// A step: 16 inputs, as 8 pairs. Its activations are 24 lines, second parts, first parts, third parts; its weights three
// tiles whose rows are two parts of a filter: first and first, second and second, third and first.
constexpr int64_t kStep = 16, kStepPairs = kStep / 2, kStepLines = 3 * kStepPairs;
constexpr int64_t kWeightTile = kTileRows * kStep;       // pairs
constexpr int64_t kWeightStep = 3 * kWeightTile;

inline int64_t ceil_div(int64_t a, int64_t b) { return (a + b - 1) / b; }

// Inputs of an output are ordered as rows of "copies" of the image, and taps, which shift a row. copies is 1, K or
// K * K: input i of filter's C*K*K is copy i % copies of its channel, i / copies % taps the tap.
struct TileLayout {
  int64_t C, H, W, K, M, copies;
  int64_t pitch;       // positions from one row of a band to the next
  int64_t rows;        // output rows a band
  int64_t line;        // positions from one pair of copies to the next: odd in cache lines, so that they spread over sets
  int64_t filters;     // of a tile, at most
  int64_t taps() const { return K * K / copies; }
  int64_t depth() const { return C * copies; }  // rows of copies
  int64_t chunks() const { return ceil_div(depth(), kStep); }
  int64_t steps() const { return chunks() * taps(); }
  int64_t filter_tiles() const { return ceil_div(M, filters); }
  int64_t rows_read(int64_t rows_out) const { return copies == K * K ? rows_out : rows_out + K - 1; }
  // Where copy r of a channel begins in it, and how far tap t shifts a row of copies.
  int64_t source(int64_t r) const { return r / K * W + r % K; }
  int64_t shift(int64_t t) const { return t * copies / K * pitch + t * copies % K; }
};

inline TileLayout tile_layout(const fops_conv& c, int64_t copies, int64_t rows) {
  TileLayout l = {c.C, c.H, c.W, c.K, c.M, copies, copies == 1 ? c.W : out_w(c), rows, 0, 0};
  l.line = ceil_div(l.rows_read(rows) * l.pitch + kTileColumns, 16) * 16;
  if (l.line / 16 % 2 == 0) l.line += 16;
  l.filters = ceil_div(c.M, ceil_div(c.M, kTileRows));
  return l;
}

// One row of `count` positions of a pair of copies; b is null where there is no second one.
template <typename T>
static inline void split_row(const T* a, const T* b, int64_t count, uint32_t* to, int64_t line) {
  const auto vectors = [&](const T* a, const T* b, int64_t w) {
    split_pair(widen(a), b ? widen(b) : Vector{}, to + kStepPairs * line + w, -kStepPairs * line, kStepPairs * line);
  };
  int64_t w = 0;
  for (; w + kLanes <= count; w += kLanes) vectors(a + w, b ? b + w : nullptr, w);
  if (w < count) {  // what is written behind the row, the next one overwrites
    T last[2][kLanes] = {};
    memcpy(last[0], a + w, (count - w) * sizeof(T));
    if (b) memcpy(last[1], b + w, (count - w) * sizeof(T));
    vectors(last[0], b ? last[1] : nullptr, w);
  }
}

// A band's activations, from its first row x of channel 0, to `to`.
template <typename T>
static void split_band(const TileLayout& l, const T* x, int64_t rows_out, uint32_t* to) {
  const int64_t rows = l.rows_read(rows_out), depth = l.depth();
  const auto copy = [&](int64_t d) { return x + d / l.copies * l.H * l.W + l.source(d % l.copies); };
  for (int64_t d = 0; d < l.chunks() * kStep; d += 2) {
    uint32_t* lines = to + (d / kStep * kStepLines + d % kStep / 2) * l.line;
    if (d >= depth) {  // behind the last input: zeros, whatever was there
      for (int part = 0; part < 3; ++part) memset(lines + part * kStepPairs * l.line, 0, l.line * 4);
      continue;
    }
    const T *a = copy(d), *b = d + 1 < depth ? copy(d + 1) : nullptr;
    if (l.pitch == l.W)  // rows follow one another in both
      split_row(a, b, rows * l.W, lines, l.line);
    else
      for (int64_t h = 0; h < rows; ++h)
        split_row(a + h * l.W, b ? b + h * l.W : nullptr, l.pitch, lines + h * l.pitch, l.line);
  }
}

// The weights of filter tile `tile`, as steps() times three tiles; false where one does not take part.
static inline bool split_weights(const TileLayout& l, const float* k, int64_t tile, uint32_t* to) {
  const int64_t inputs = l.C * l.K * l.K, first = tile * l.filters, filters = std::min(l.filters, l.M - first);
  const int64_t taps = l.taps(), depth = l.depth();
  if (!splittable(k + first * inputs, filters * inputs)) return false;
  for (int64_t s = 0; s < l.steps(); ++s) memset(to + s * kWeightStep, 0, kWeightStep * 4);
  for (int64_t f = 0; f < filters; ++f) {
    const float* weight = k + (first + f) * inputs;
    for (int64_t chunk = 0; chunk < l.chunks(); ++chunk) {
      const int64_t begin = chunk * kStep, count = std::min<int64_t>(kStep, depth - begin);
      for (int64_t t = 0; t < taps; ++t) {
        alignas(64) float even[16] = {}, odd[16] = {};
        for (int64_t i = 0; i < count; ++i) {
          const int64_t d = begin + i, at = d / l.copies * l.K * l.K + t * l.copies + d % l.copies;
          (i % 2 ? odd : even)[i / 2] = weight[at];
        }
        alignas(64) uint32_t parts[3][16];
        for (int64_t i = 0; i < kStepPairs; i += kLanes)
          split_pair(load(even + i), load(odd + i), parts[0] + i, 16, 32);
        uint32_t* row = to + (chunk * taps + t) * kWeightStep + f * 2 * kStepPairs;
        const int halves[3][2] = {{0, 0}, {1, 1}, {2, 0}};
        for (int i = 0; i < 3; ++i)
          for (int half = 0; half < 2; ++half)
            memcpy(row + i * kWeightTile + half * kStepPairs, parts[halves[i][half]], kStepPairs * 4);
      }
    }
  }
  return true;
}

// The sums of tiles j side by side over steps [first, last): to `sums`, rows of kBlock. What is small comes first, all
// through the chain and within an instruction, so that a product of first parts is rounded no more than 8 + 1 times in
// its instruction, and once a step.
template <class Tiles, int... j>
static inline void tile_chain(Tiles& t, const int64_t* shifts, int64_t first, int64_t last, const uint32_t* x,
                              int64_t line, const uint32_t* w, float* sums, std::integer_sequence<int, j...>) {
  constexpr int a = kBlockTiles, b = 7;
  const int64_t stride = line * 4;
  (t.template zero<j>(), ...);
  for (int64_t s = first; s < last; ++s) {
    const uint32_t *from = x + shifts[s], *weights = w + s * kWeightStep;
    t.template load<a + 1>(weights + kWeightTile, kTileStride);
    t.template load<a + 2>(weights + 2 * kWeightTile, kTileStride);
    ((t.template load<b>(from + kStepPairs * line + j * kTileColumns, stride), t.template multiply<j, a + 2, b>()), ...);
    ((t.template load<b>(from + j * kTileColumns, stride), t.template multiply<j, a + 1, b>()), ...);
  }
  for (int64_t s = first; s < last; ++s) {
    t.template load<a>(w + s * kWeightStep, kTileStride);
    ((t.template load<b>(x + shifts[s] + j * kTileColumns, stride), t.template multiply<j, a, b>()), ...);
  }
  (t.template store<j>(sums + j * kTileColumns, kBlock * 4), ...);
}

template <class Tiles>
static void tile_chain(Tiles& t, int tiles, const int64_t* shifts, int64_t first, int64_t last, const uint32_t* x,
                       int64_t line, const uint32_t* w, float* sums) {
  const auto run = [&](auto sequence) { tile_chain(t, shifts, first, last, x, line, w, sums, sequence); };
  switch (tiles) {
    case 1: return run(std::make_integer_sequence<int, 1>());
    case 2: return run(std::make_integer_sequence<int, 2>());
    case 3: return run(std::make_integer_sequence<int, 3>());
    default: return run(std::make_integer_sequence<int, 4>());
  }
}

static inline void copy_floats(const float* from, int64_t count, float* to) {
  int64_t i = 0;
  for (; i + kLanes <= count; i += kLanes) store(to + i, load(from + i));
  if (i < count) memcpy(to + i, from + i, (count - i) * sizeof(float));
}

}  // namespace FOPS_ISA
}  // namespace fops
