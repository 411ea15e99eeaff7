// The inner functions of tiles_simd.cpp, whose head explains the method: they split a band's activations and the weights
// into parts in the layout of AMX tiles, and compute the sums of a block of outputs.
#pragma once

#include <algorithm>
#include <utility>

#include "base/summation.h"
#include "base/tiles.h"
#include "conv/cpu/inputs.h"
#include "conv/cpu/split.h"
#include "conv/kernel.h"

namespace fops::FOPS_ISA {

constexpr int kBlockTiles = 4;                                              // number of tiles of outputs in a block
constexpr int64_t kStep = 16;                                               // number of channels in a step
constexpr int64_t kWeightTile = 16 * kLine, kWeightStep = 3 * kWeightTile;  // sizes of weights in numbers of 32 bits

// A step is one tap (p, q) for 16 channels. A chain is a number of steps that are added up in a tile, before the tile is
// added to the sums of the previous chains. A product of two first parts passes through at most 8 additions in its
// instruction, one that adds the sums of even and odd channels, one in each later step of its chain, and one for each later
// chain. That is less than base/summation.h allows: the 16 products of a step pass through 9 + 1 additions.
struct Tiling {
  int64_t C, H, W, K, M;
  int64_t rows;           // output rows per band
  int64_t width, across;  // positions per tile, all in one row; tiles per row
  int64_t chain;          // steps per chain
  int64_t W_out() const { return W - K + 1; }
  int64_t chunks() const { return ceil_div(C, kStep); }
  int64_t steps() const { return chunks() * K * K; }
  int64_t filter_tiles() const { return ceil_div(M, kLine); }
  int64_t plane() const { return ceil_div((rows + K - 1) * W, kLine) * kLine * kLine; }  // size of a plane
  int64_t activations() const { return chunks() * 2 * plane(); }
  // The distance from the activations of an output's position to those that step s reads for this output.
  int64_t offset(int64_t s) const {
    const int64_t tap = s % (K * K);
    return s / (K * K) * 2 * plane() + (tap / K * W + tap % K) * kLine;
  }
};

static inline Tiling tiling(const fops_conv& c, int64_t rows) {
  Tiling t = {c.C, c.H, c.W, c.K, c.M, rows, 0, ceil_div(out_w(c), kTileRows), 0};
  t.chain = part_of_sum(t.steps());
  t.width = ceil_div(out_w(c), t.across);
  return t;
}

// Splits a band's activations; x points at the band's first row of channel 0. For each step of 16 channels, `to` gets two
// planes with a line per position. A line of the first plane has the second parts of 8 pairs of channels, then their first
// parts; a line of the second plane has their first parts, then their third parts.
template <typename T>
static void split_band(const Tiling& t, const T* x, int64_t rows_out, uint32_t* to) {
  const int64_t positions = (rows_out + t.K - 1) * t.W, image_plane = t.H * t.W;
  for (int64_t c = 0; c < t.C; c += kStep, to += 2 * t.plane()) {
    for (int64_t i = 0; i < positions; i += kLine) {
      Line front[kLine], back[kLine];
      for (int j = 0; j < kLine / 2; ++j) {
        FloatLine pair[2] = {};
        for (int half = 0; half < 2; ++half)
          if (c + 2 * j + half < t.C) pair[half] = load_line(x + (c + 2 * j + half) * image_plane + i, positions - i);
        const Parts p = split(pair[0], pair[1]);
        front[j] = p.second;
        front[kLine / 2 + j] = back[j] = p.first;
        back[kLine / 2 + j] = p.third;
      }
      transpose(front);
      transpose(back);
      for (int j = 0; j < kLine; ++j) {
        *reinterpret_cast<Line*>(to + (i + j) * kLine) = front[j];
        *reinterpret_cast<Line*>(to + t.plane() + (i + j) * kLine) = back[j];
      }
    }
  }
}

// Splits the weights of filter tile `tile`, which are 16 filters. Each step has three tiles. A row of a tile is a pair of
// channels: rows 0 to 7 and rows 8 to 15 are both first parts in the first tile, both second parts in the second tile, and
// third parts and first parts in the third tile. `scratch` has space for 16 C K K floats, with C K K rounded up to a
// multiple of 16. Returns false if a weight cannot be split.
static inline bool split_weights(const Tiling& t, const float* k, int64_t tile, float* scratch, uint32_t* to) {
  const int64_t taps = t.K * t.K, inputs = t.C * taps, first = tile * kLine;
  const int64_t filters = std::min<int64_t>(kLine, t.M - first);
  if (!splittable(k + first * inputs, filters * inputs)) return false;
  for (int64_t i = 0; i < inputs; i += kLine) {
    Line block[kLine] = {};
    for (int64_t f = 0; f < filters; ++f)
      block[f] = reinterpret_cast<Line>(load_line(k + (first + f) * inputs + i, inputs - i));
    transpose(block);
    for (int j = 0; j < kLine; ++j) *reinterpret_cast<Line*>(scratch + (i + j) * kLine) = block[j];
  }
  for (int64_t s = 0; s < t.steps(); ++s, to += kWeightStep)
    for (int j = 0; j < kLine / 2; ++j) {
      FloatLine pair[2] = {};
      for (int half = 0; half < 2; ++half) {
        const int64_t c = s / taps * kStep + 2 * j + half;
        if (c < t.C) pair[half] = load_line(scratch + (c * taps + s % taps) * kLine);
      }
      const Parts p = split(pair[0], pair[1]);
      Line* const rows = reinterpret_cast<Line*>(to) + j;
      rows[0] = rows[8] = rows[40] = p.first;
      rows[16] = rows[24] = p.second;
      rows[32] = p.third;
    }
  return true;
}

// Computes, for each tile j of outputs, the sums over steps [first, last) into sums + j * 16 * 16, with 16 floats per
// position. Small products are added first, in the chain and within an instruction, so that they are not lost in the
// rounding of large sums.
template <class Tiles, int... j>
static inline void tile_chain(Tiles& t, const int64_t* offsets, int64_t first, int64_t last, int64_t plane,
                              const uint32_t* const* x, const uint32_t* w, float* sums,
                              std::integer_sequence<int, j...>) {
  constexpr int first_parts = 4, second_parts = 5, mixed = 6, a = 7;
  (t.template zero<j>(), ...);
  for (int64_t s = first; s < last; ++s) {
    const uint32_t* weights = w + s * kWeightStep;
    const int64_t at = offsets[s];
    t.template load<second_parts>(weights + kWeightTile, kTileStride);
    t.template load<mixed>(weights + 2 * kWeightTile, kTileStride);
    ((t.template load<a>(x[j] + at + plane, kTileStride), t.template multiply<j, a, mixed>()), ...);
    ((t.template load<a>(x[j] + at, kTileStride), t.template multiply<j, a, second_parts>()), ...);
  }
  for (int64_t s = first; s < last; ++s) {
    t.template load<first_parts>(w + s * kWeightStep, kTileStride);
    ((t.template load<a>(x[j] + offsets[s], kTileStride), t.template multiply<j, a, first_parts>()), ...);
  }
  (t.template store<j>(sums + j * kLine * kLine, kTileStride), ...);
}

template <class Tiles>
static void tile_chain(Tiles& t, int64_t tiles, const int64_t* offsets, int64_t first, int64_t last, int64_t plane,
                       const uint32_t* const* x, const uint32_t* w, float* sums) {
  const auto run = [&](auto sequence) { tile_chain(t, offsets, first, last, plane, x, w, sums, sequence); };
  switch (tiles) {
    case 1: return run(std::make_integer_sequence<int, 1>());
    case 2: return run(std::make_integer_sequence<int, 2>());
    case 3: return run(std::make_integer_sequence<int, 3>());
    default: return run(std::make_integer_sequence<int, 4>());
  }
}

// Computes a band's outputs of filter tiles [first, last); y points at the band's first output of filter 0.
template <class Tiles>
static void multiply_band(const Tiling& t, const int64_t* offsets, const uint32_t* x, const uint32_t* weights,
                          int64_t rows_out, int64_t first, int64_t last, float* y, int64_t y_plane) {
  Tiles unit(static_cast<int>(t.width));
  const int64_t tiles = rows_out * t.across, blocks = ceil_div(tiles, kBlockTiles), W_out = t.W_out();
  alignas(64) float chain[kBlockTiles * kLine * kLine], total[kBlockTiles * kLine * kLine];
  for (int64_t tile = first; tile < last; ++tile) {
    const uint32_t* w = weights + tile * t.steps() * kWeightStep;
    const int64_t m = tile * kLine, filters = std::min<int64_t>(kLine, t.M - m);
    for (int64_t block = 0; block < blocks; ++block) {
      const int64_t from = tiles * block / blocks, count = tiles * (block + 1) / blocks - from;
      const uint32_t* at[kBlockTiles];
      int64_t out[kBlockTiles];
      for (int64_t j = 0; j < count; ++j) {
        const int64_t h = (from + j) / t.across, column = (from + j) % t.across * t.width;
        const int64_t left = std::min(column, W_out - t.width);  // a row's last tile may overlap the previous one
        at[j] = x + (h * t.W + left) * kLine;
        out[j] = h * W_out + left;
      }
      for (int64_t s = 0; s < t.steps(); s += t.chain) {
        tile_chain(unit, count, offsets, s, std::min(s + t.chain, t.steps()), t.plane(), at, w, s ? chain : total);
        for (int64_t i = 0; s && i < count * kLine; ++i)
          reinterpret_cast<FloatLine*>(total)[i] += reinterpret_cast<FloatLine*>(chain)[i];
      }
      for (int64_t j = 0; j < count; ++j) {
        Line lines[kLine];
        for (int i = 0; i < kLine; ++i) lines[i] = reinterpret_cast<Line*>(total)[j * kLine + i];
        transpose(lines);
        for (int64_t f = 0; f < filters; ++f)
          store_line(y + (m + f) * y_plane + out[j], reinterpret_cast<FloatLine>(lines[f]), t.width);
      }
    }
  }
}

}  // namespace fops::FOPS_ISA
