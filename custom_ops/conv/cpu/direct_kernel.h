// The sums of direct_simd.cpp: a tile of outputs, filters x positions, in registers. The head of direct_simd.cpp
// explains it.
#pragma once

#include <algorithm>
#include <cstring>
#include <utility>

#include "base/simd.h"
#include "base/summation.h"

namespace fops {
namespace FOPS_ISA {

// Filters and vectors of a tile. With 32 registers 8 x 3: a load that crosses a cache line counts as two, so 6 x 4 needs
// 14 for its 24 multiply-adds, and 8 x 3 the same with cheaper ones: 175 and 157 GFLOP/s on one Sapphire Rapids core.
constexpr int kFilters = kManyRegisters ? 8 : 4, kWide = 3;
constexpr int64_t kTileFloats = kFilters * kWide * kLanes;

// One tile's inputs: output position i of filter r is the sum of x[taps[t] + i] * k[r * stride + t], t < depth.
struct Products {
  const int64_t* taps;
  int64_t depth, part;  // products of a sum; those that are summed by themselves, see base/summation.h
  int64_t stride;
};

// The tile's sums, part by part, to `sums`. The loops over acc must be gone before the compiler decides what lives in
// registers, hence the pragmas.
template <int filters, int vectors>
static void tile_sums(const Products& p, const float* x, const float* k, float* sums) {
  const int64_t depth = p.depth, stride = p.stride;
  for (int64_t i = 0; i < depth; i += p.part) {
    const int64_t end = std::min(i + p.part, depth);
    Vector acc[filters][vectors];
#pragma GCC unroll 8
    for (int r = 0; r < filters; ++r)
#pragma GCC unroll 8
      for (int v = 0; v < vectors; ++v) acc[r][v] = Vector{};
    for (int64_t t = i; t < end; ++t) {
      const float* from = x + p.taps[t];
      Vector in[vectors];
#pragma GCC unroll 8
      for (int v = 0; v < vectors; ++v) in[v] = load(from + v * kLanes);
#pragma GCC unroll 8
      for (int r = 0; r < filters; ++r) {
        const float w = k[r * stride + t];
#pragma GCC unroll 8
        for (int v = 0; v < vectors; ++v) acc[r][v] = multiply_add(in[v], w, acc[r][v]);
      }
    }
#pragma GCC unroll 8
    for (int r = 0; r < filters; ++r)
#pragma GCC unroll 8
      for (int v = 0; v < vectors; ++v) {
        float* at = sums + (r * vectors + v) * kLanes;
        store(at, i == 0 ? acc[r][v] : load(at) + acc[r][v]);
      }
  }
}

using TileSums = void (*)(const Products&, const float*, const float*, float*);

// tile_sums of every size: i is (filters - 1) * kWide + vectors - 1.
template <int... i>
static TileSums tile_sums_of(int64_t filters, int64_t vectors, std::integer_sequence<int, i...>) {
  static constexpr TileSums table[] = {tile_sums<i / kWide + 1, i % kWide + 1>...};
  return table[(filters - 1) * kWide + vectors - 1];
}

}  // namespace FOPS_ISA
}  // namespace fops
