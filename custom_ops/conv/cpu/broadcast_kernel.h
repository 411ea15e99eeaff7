// The inner functions of broadcast_simd.cpp, whose head explains the method: they pack the weights, and compute and store
// a tile of outputs (positions of a row x a block of filters).
#pragma once

#include <algorithm>
#include <utility>

#include "base/simd.h"
#include "conv/cpu/lines.h"
#include "conv/kernel.h"

namespace fops::FOPS_ISA {

// A tile has kPositions positions of a row and a block of kBlockFilters filters: kBlockLines lines of 16 filters, or
// kDeep vectors.
constexpr int kBlockLines = kLanes == kLine ? 2 : 1, kBlockFilters = kBlockLines * kLine;
constexpr int kDeep = kBlockFilters / kLanes;
constexpr int kPositions = kLanes == kLine ? 14 : (kManyRegisters ? 6 : kLanes == 8 ? 6 : 2);

// The output at x of filter f of a block is the sum over t < depth of x[taps[t]] * weights[t * kBlockFilters + f].
struct Products {
  const int64_t* taps;
  int64_t depth, part;  // products per sum; products per part (base/summation.h)
};

// Computes the sums of `positions` positions of a row from x on, part by part (base/summation.h), into
// sums[position][filter].
template <int positions>
static void row_sums(const Products& p, const float* x, const float* weights, float* sums) {
  for (int64_t i = 0; i < p.depth; i += p.part) {
    const int64_t* tap = p.taps + i;
    const int64_t* const tap_end = p.taps + std::min(i + p.part, p.depth);
    Vector acc[positions][kDeep];
#pragma GCC unroll 16
    for (int j = 0; j < positions; ++j)
#pragma GCC unroll 4
      for (int v = 0; v < kDeep; ++v) acc[j][v] = Vector{};
    for (; tap != tap_end; ++tap, weights += kBlockFilters) {
      const float* const from = x + *tap;
      Vector w[kDeep];
#pragma GCC unroll 4
      for (int v = 0; v < kDeep; ++v) w[v] = load(weights + v * kLanes);
#pragma GCC unroll 16
      for (int j = 0; j < positions; ++j) {
        const float in = from[j];
#pragma GCC unroll 4
        for (int v = 0; v < kDeep; ++v) acc[j][v] = multiply_add(w[v], in, acc[j][v]);
      }
    }
#pragma GCC unroll 16
    for (int j = 0; j < positions; ++j)
#pragma GCC unroll 4
      for (int v = 0; v < kDeep; ++v) {
        float* const sum = sums + j * kBlockFilters + v * kLanes;
        store(sum, i > 0 ? load(sum) + acc[j][v] : acc[j][v]);
      }
  }
}

using RowSums = void (*)(const Products&, const float*, const float*, float*);

template <int... i>
static RowSums row_sums_of(int64_t positions, std::integer_sequence<int, i...>) {
  static constexpr RowSums table[] = {row_sums<i + 1>...};
  return table[positions - 1];
}

static inline RowSums row_sums_of(int64_t positions) {
  return row_sums_of(positions, std::make_integer_sequence<int, kPositions>());
}

// Stores a tile's sums to y, where filters are y_plane floats apart. The array `sums` has space for 16 positions, all of
// which are read.
static inline void store_sums(const float* sums, int64_t positions, int64_t filters, float* y, int64_t y_plane) {
  for (int64_t first = 0; first < filters; first += kLine) {
    Line lines[kLine];
    for (int p = 0; p < kLine; ++p) lines[p] = *reinterpret_cast<const Line*>(sums + p * kBlockFilters + first);
    transpose(lines);
    for (int64_t f = first; f < std::min(first + kLine, filters); ++f)
      store_line(y + f * y_plane, reinterpret_cast<FloatLine>(lines[f - first]), positions);
  }
}

// Packs the weights for taps [begin, end) of a block of `filters` filters, which are `depth` weights apart in k. In `to`,
// the weights of a tap for all kBlockFilters filters are adjacent, with zeros for missing filters.
static inline void pack_block(const float* k, int64_t filters, int64_t depth, int64_t begin, int64_t end, float* to) {
  for (int64_t first = 0; first < kBlockFilters; first += kLine)
    for (int64_t t = begin; t < end; t += kLine) {
      const int64_t there = std::min<int64_t>(kLine, filters - first), count = std::min<int64_t>(kLine, end - t);
      const float* const from = k + first * depth + t;
      Line* const at = reinterpret_cast<Line*>(to + t * kBlockFilters + first);
      Line lines[kLine];
      if (there == kLine && count == kLine) {  // all in registers, which is twice as fast as the general case
#pragma GCC unroll 16
        for (int f = 0; f < kLine; ++f) lines[f] = reinterpret_cast<Line>(load_line(from + f * depth));
        transpose(lines);
#pragma GCC unroll 16
        for (int i = 0; i < kLine; ++i) at[i * kBlockLines] = lines[i];
      } else {
        for (int f = 0; f < kLine; ++f)
          lines[f] = f < there ? reinterpret_cast<Line>(load_line(from + f * depth, count)) : Line{};
        transpose(lines);
        for (int64_t i = 0; i < count; ++i) at[i * kBlockLines] = lines[i];
      }
    }
}

}  // namespace fops::FOPS_ISA
