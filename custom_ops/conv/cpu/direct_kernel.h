// The inner functions of direct_simd.cpp, whose head explains the method: they compute a tile of outputs (filters x
// positions) in registers.
#pragma once

#include <algorithm>
#include <utility>

#include "base/simd.h"

namespace fops::FOPS_ISA {

// Number of filters, and of vectors of positions, in a tile. With 32 registers 8 x 3 is faster than 6 x 4 (175 instead of
// 157 GFLOP/s on one Sapphire Rapids core), because loads of vectors cross cache lines, and loads of weights do not.
constexpr int kFilters = kManyRegisters ? 8 : 4, kWide = 3;
constexpr int64_t kTileFloats = kFilters * kWide * kLanes;

// A block of consecutive positions, up to kWide vectors of them, and the offsets of their inputs. A vector that extends
// into the next output rows has its inputs in pieces: from lane bounds[g][v] on they are (g + 1) * skip floats further,
// and a masked load merges them into the vector.
constexpr int kMerges = 2, kKinds = kMaskedLoads ? kMerges + 1 : 1;  // most masked loads per vector; values of `merges`
struct Block {
  int64_t begin, count;        // first position; number of positions
  int64_t offsets[kWide];      // offset of each vector's first input
  int bounds[kMerges][kWide];  // first lane of each further piece; kLanes if there is no such piece
  int vectors, merges;         // number of vectors; number of masked loads for each of them
};

// The output at x of filter r is the sum over t < depth of x[taps[t]] * k[r * stride + t].
struct Products {
  const int64_t* taps;
  int64_t depth, part;   // products per sum; products per part (base/summation.h)
  int64_t stride, skip;  // weights from one filter to the next; inputs between two rows of positions (Block)
};

struct Outputs {
  float* y;               // the place of position `first` of the first filter
  int64_t first, stride;  // a position; floats from one filter's outputs to the next filter's
  bool add, far;          // add: add the sums to y; far: y is too large for the near caches, so prefetch its lines
};

// Returns the weight of filter r. The weights of each filter are `once` bytes after those of the previous filter; `thrice`
// is 3 * once, which the caller computes once.
static inline float weight_of(int r, const char* k, int64_t once, int64_t thrice) {
  const int64_t by[] = {0, once, 2 * once, thrice, 4 * once, thrice + 2 * once, 2 * thrice, thrice + 4 * once};
  return *reinterpret_cast<const float*>(k + by[r]);
}

// Computes and stores the sums of `count` blocks, which have the same number of vectors, one tile per block, part by part.
// shifted_kernel.h explains the pragmas.
template <int filters, int vectors, int merges>
static void tile_sums(const Products& p, const Block* b, int64_t count, const float* x, const float* k,
                      const Outputs& to) {
  const int64_t depth = p.depth, skip = p.skip, once = p.stride * 4, thrice = 3 * once, stride = to.stride;
  alignas(kVectorBytes) float memory[filters * vectors * kLanes];
  float* sums = memory;  // sums of the previous parts
  // Without this statement the compiler keeps a small tile's `memory` in registers and its inputs in memory, which doubled
  // the time of a layer (1 input and 4 output channels, 7x7). A large tile omits the statement: the compiler keeps a few of
  // its sums in free registers, which saves 4% of a layer's time (3 input and 64 output channels, 5x5).
  if (kManyRegisters && filters * vectors <= 16) asm("" : "+r"(sums));
  for (; count > 0; --count, ++b) {
    float* const y = to.y + b->begin - to.first;
    Lanes pieces[kMerges][vectors];
    const float* at[vectors];
    for (int v = 0; v < vectors; ++v) {
      at[v] = x + b->offsets[v];
      for (int g = 0; g < merges; ++g) pieces[g][v] = lanes_from(b->bounds[g][v]);
    }
    if (to.far) {
      const float* row = y;
      for (int r = 0; r < filters; ++r, row += stride)
        for (int v = 0; v < vectors; ++v) __builtin_prefetch(row + v * kLanes, 1);
    }
    const char* weights = reinterpret_cast<const char*>(k);
    for (int64_t i = 0; i < depth; i += p.part) {
      const int64_t end = std::min(i + p.part, depth);
      const int64_t* tap_at = p.taps + i;
      const int64_t* const tap_end = p.taps + end;
      Vector acc[filters][vectors];
#pragma GCC unroll 8
      for (int r = 0; r < filters; ++r)
#pragma GCC unroll 8
        for (int v = 0; v < vectors; ++v) acc[r][v] = Vector{};
      for (; tap_at != tap_end; ++tap_at, weights += sizeof(float)) {
        // Without this statement the compiler keeps a pointer for each filter, some in vector registers, and is 7% slower.
        asm("" : "+r"(weights));
        const int64_t tap = *tap_at;
        Vector in[vectors];
#pragma GCC unroll 8
        for (int v = 0; v < vectors; ++v) {
          const float* from = at[v] + tap;
          in[v] = load(from);
#pragma GCC unroll 8
          for (int g = 0; g < merges; ++g) in[v] = load_lanes(in[v], pieces[g][v], from + (g + 1) * skip);
        }
#pragma GCC unroll 8
        for (int r = 0; r < filters; ++r) {
          const float w = weight_of(r, weights, once, thrice);
#pragma GCC unroll 8
          for (int v = 0; v < vectors; ++v) acc[r][v] = multiply_add(in[v], w, acc[r][v]);
        }
      }
      if (i > 0) {
#pragma GCC unroll 8
        for (int r = 0; r < filters; ++r)
#pragma GCC unroll 8
          for (int v = 0; v < vectors; ++v) acc[r][v] += load(sums + (r * vectors + v) * kLanes);
      }
      if (end < depth) {
#pragma GCC unroll 8
        for (int r = 0; r < filters; ++r)
#pragma GCC unroll 8
          for (int v = 0; v < vectors; ++v) store(sums + (r * vectors + v) * kLanes, acc[r][v]);
        continue;
      }
      float* row = y;
      if (to.add) {
#pragma GCC unroll 8
        for (int r = 0; r < filters; ++r, row += stride) {
          asm("" : "+r"(row));  // so that there is only one pointer, as for the weights
#pragma GCC unroll 8
          for (int v = 0; v < vectors; ++v) acc[r][v] += load(row + v * kLanes);
        }
        row = y;
      }
#pragma GCC unroll 8
      for (int r = 0; r < filters; ++r, row += stride) {
        asm("" : "+r"(row));
#pragma GCC unroll 8
        for (int v = 0; v < vectors; ++v) store(row + v * kLanes, acc[r][v]);
      }
    }
  }
}

using TileSums = void (*)(const Products&, const Block*, int64_t, const float*, const float*, const Outputs&);

template <int... i>
static TileSums tile_sums_of(int64_t filters, int64_t vectors, int64_t merges, std::integer_sequence<int, i...>) {
  static constexpr TileSums table[] = {tile_sums<i / kKinds / kWide + 1, i / kKinds % kWide + 1, i % kKinds>...};
  return table[((filters - 1) * kWide + vectors - 1) * kKinds + merges];
}

static inline TileSums tile_sums_of(int64_t filters, int64_t vectors, int64_t merges) {
  return tile_sums_of(filters, vectors, merges, std::make_integer_sequence<int, kFilters * kWide * kKinds>());
}

}  // namespace fops::FOPS_ISA
