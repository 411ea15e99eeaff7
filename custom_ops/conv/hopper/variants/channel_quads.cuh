// channel_quads.cu: an image of several channels in shared memory, split, and the order in which a product reads it.
#pragma once

#include <cuda_runtime.h>

#include <cstddef>
#include <cstdint>

#include "conv/cuda/dims.h"
#include "gpu/isa/halves.cuh"

namespace fops {
namespace channel_quads {

// Per number of groups of eight filters: 8-pixel mma tiles that a warp computes at a time, maximum warps per block, and
// blocks that an SM's registers must hold. Few filters need few registers, so more blocks hide one another's staging.
__host__ __device__ constexpr int columns(int) { return 4; }
__host__ __device__ constexpr int max_warps(int groups) { return groups <= 2 ? 4 : 6; }
__host__ __device__ constexpr int min_blocks(int groups) { return groups <= 2 ? 4 : 2; }
// Pixels a warp computes at a time, and the floats between two filters' staged outputs: 8 banks apart.
__host__ __device__ constexpr int chunk_pixels(int groups) { return 8 * columns(groups); }
__host__ __device__ constexpr int outgoing_stride(int groups) { return chunk_pixels(groups) + 8; }

// The product's depth runs over quads, four values of a pixel's neighbourhood in one 16-byte entry of the staged image:
// { hi, hi, lo, lo }, two halves per word, which is two mma operands without conversion. A pixel has an entry for every
// four channels; one or two channels left over get an entry that holds them for this pixel and the next, and so serves
// two taps of a row. So 6 channels of 5 x 5 taps take 25 + 15 quads, 160 values for 150.
// Four quads are an mma step, one for each lane of four.
__host__ __device__ constexpr int full_entries(int C) { return C / 4 + (C % 4 == 3); }
__host__ __device__ constexpr bool has_rest(int C) { return C % 4 == 1 || C % 4 == 2; }
__host__ __device__ constexpr int entries(int C) { return full_entries(C) + has_rest(C); }
__host__ __device__ constexpr int quads(int C, int K) {
  return K * (K * full_entries(C) + has_rest(C) * ((K + 1) / 2));
}
__host__ __device__ constexpr int steps(int C, int K) { return (quads(C, K) + 3) / 4; }

// A quad: its entry, the tap whose pixel holds that entry, and whether it belongs to the channels left over.
struct Quad {
  int p, q, entry;
  bool rest;
};

__device__ inline Quad quad_at(int i, int C, int K) {
  const int full = full_entries(C), in_full = K * K * full;
  if (i < in_full) return {i / K % K, i % K, i / (K * K), false};
  const int rest = i - in_full, per_row = (K + 1) / 2;
  return {rest / per_row, rest % per_row * 2, full, true};
}

// Properties of the values: the largest magnitude, rounded, as the bits of two halves (infinities and NaN are above all
// others), and the smallest nonzero one.
struct Seen {
  unsigned top = 0;
  uint32_t smallest = ~0u;
};

// Four values, scaled, as { hi, hi, lo, lo }.
__device__ inline uint4 split4(float a, float b, float c, float d, float scale, Seen* seen) {
  const SplitPair ab = split_pair(a * scale, b * scale), cd = split_pair(c * scale, d * scale);
  seen->top = __vmaxu2(seen->top, __vmaxu2(ab.hi & 0x7fff7fffu, cd.hi & 0x7fff7fffu));
  const uint32_t of_ab = min(nonzero_bits(a), nonzero_bits(b)), of_cd = min(nonzero_bits(c), nonzero_bits(d));
  seen->smallest = min(seen->smallest, min(of_ab, of_cd));
  return make_uint4(ab.hi, cd.hi, ab.lo, cd.lo);
}

// Stages kEntries entries of every pixel, from channel `first` on: kEntries * kPixels * 4 loads in flight together.
// Past the last channel or pixel it reads the last one again, so that there is no branch between the loads.
template <int kEntries, int kPixels>
__device__ void stage_full(const float* source, int first, int C, int pixels, int image_pixels, float scale,
                           uint4* staged, int entry_stride, Seen* seen) {
  int plane[4 * kEntries];
#pragma unroll
  for (int e = 0; e < 4 * kEntries; ++e) plane[e] = min(first + e, C - 1) * image_pixels;
#pragma unroll 1
  for (int i = threadIdx.x; i < pixels; i += kPixels * blockDim.x) {
    float v[kPixels][4 * kEntries];
#pragma unroll
    for (int n = 0; n < kPixels; ++n) {
      const float* from = source + min(i + n * static_cast<int>(blockDim.x), pixels - 1);
#pragma unroll
      for (int e = 0; e < 4 * kEntries; ++e) v[n][e] = from[plane[e]];
    }
#pragma unroll
    for (int n = 0; n < kPixels; ++n) {
      const int at = min(i + n * static_cast<int>(blockDim.x), pixels - 1);
#pragma unroll
      for (int j = 0; j < kEntries; ++j) {
        const float fourth = first + 4 * j + 3 < C ? v[n][4 * j + 3] : 0.0f;
        staged[j * entry_stride + at] = split4(v[n][4 * j], v[n][4 * j + 1], v[n][4 * j + 2], fourth, scale, seen);
      }
    }
  }
}

// Stages `pixels` pixels of every channel. Returns the properties that this thread saw, the largest magnitude as the
// bits of a half.
__device__ Seen stage(const float* source, int C, int pixels, int image_pixels, float scale, uint4* staged,
                          int entry_stride) {
  const int full = full_entries(C), last = C - 1, threads = blockDim.x;
  Seen seen;
  int entry = 0;
  for (; entry + 3 <= full; entry += 3)
    stage_full<3, 1>(source, 4 * entry, C, pixels, image_pixels, scale, staged + entry * entry_stride, entry_stride,
                     &seen);
  for (; entry < full; ++entry)
    stage_full<1, 3>(source, 4 * entry, C, pixels, image_pixels, scale, staged + entry * entry_stride, entry_stride,
                     &seen);
  if (has_rest(C)) {
    const float* a = source + 4 * full * image_pixels;
    const float* b = source + last * image_pixels;  // the same channel if only one is left
    const float two = C % 4 == 2 ? 1.0f : 0.0f;
#pragma unroll 1
    for (int i = threadIdx.x; i < pixels; i += 3 * threads) {
      float v[3][4];
#pragma unroll
      for (int n = 0; n < 3; ++n) {
        const int at = min(i + n * threads, pixels - 1), next = min(at + 1, pixels - 1);
        v[n][0] = a[at], v[n][1] = b[at], v[n][2] = a[next], v[n][3] = b[next];
      }
#pragma unroll
      for (int n = 0; n < 3; ++n)
        staged[full * entry_stride + min(i + n * threads, pixels - 1)] =
            split4(v[n][0], v[n][1] * two, v[n][2], v[n][3] * two, scale, &seen);
    }
  }
  seen.top = max(seen.top & 0xffffu, seen.top >> 16);
  return seen;
}

// ---- how much of an image a block stages ----

inline size_t shared_bytes(const fops_conv& c, int64_t rows, int warps) {
  const int C = static_cast<int>(c.C);
  const int64_t depth = steps(C, static_cast<int>(c.K)), groups = ceil_div(c.M, 8);
  const int64_t outgoing = 4 * warps * 8 * groups * outgoing_stride(static_cast<int>(groups));
  const int64_t staged = 16 * (rows + c.K - 1) * c.W * entries(C);
  return 16 * depth * groups * 32 + outgoing + staged + 16 * (depth + 2);
}

// Warps per block: the number whose rounds of chunks fit a band best. fa2019's second layer has 841 pixels, 17.5
// chunks, which 6 warps take in three rounds; 5 warps would need four.
inline int warps_for(int groups, int64_t rows, int64_t OW) {
  const int64_t chunks = ceil_div(rows * OW, chunk_pixels(groups));
  int best = max_warps(groups);
  int64_t minimum = INT64_MAX;
  for (int warps = best; warps >= 4; --warps) {
    const int64_t made = ceil_div(chunks, warps) * warps;
    if (made < minimum) minimum = made, best = warps;
  }
  return best;
}

// As few bands per image as fit in `limit` bytes of shared memory; 0 rows when not even one does.
inline int64_t band_rows(const fops_conv& c, size_t limit) {
  const int64_t OH = out_h(c);
  for (int64_t bands = 1; bands <= OH; ++bands) {
    const int64_t rows = ceil_div(OH, bands);
    if (shared_bytes(c, rows, warps_for(static_cast<int>(ceil_div(c.M, 8)), rows, out_w(c))) <= limit) return rows;
  }
  return 0;
}

}  // namespace channel_quads
}  // namespace fops
