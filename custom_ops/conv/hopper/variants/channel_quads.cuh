// For channel_quads.cu: the layout of a split image in shared memory, the order in which the product reads it, and
// staging.
#pragma once

#include <cuda_runtime.h>

#include <cstddef>
#include <cstdint>

#include "conv/cuda/dims.h"
#include "gpu/isa/halves.cuh"

namespace fops::channel_quads {

// For a number of groups of eight filters: columns is the number of mma tiles of 8 pixels that a warp computes at a
// time, max_warps the maximum number of warps per block, min_blocks the minimum number of blocks per SM. Few filters
// need few registers, so there can be more blocks, which hide one another's staging.
__host__ __device__ constexpr int columns(int) { return 4; }
__host__ __device__ constexpr int max_warps(int groups) { return groups <= 2 ? 4 : 6; }
__host__ __device__ constexpr int min_blocks(int groups) { return groups <= 2 ? 4 : 2; }
// chunk_pixels is the number of pixels that a warp computes at a time. outgoing_stride is the number of floats from one
// filter's outputs in shared memory to the next; the 8 more floats avoid bank conflicts.
__host__ __device__ constexpr int chunk_pixels(int groups) { return 8 * columns(groups); }
__host__ __device__ constexpr int outgoing_stride(int groups) { return chunk_pixels(groups) + 8; }

// The product's depth consists of quads. A quad is four values in a 16-byte entry of the staged image, { hi, hi, lo, lo
// } with two halves per word: two mma operands, without conversion. A pixel has an entry for every four channels. If
// one or two channels are left over, an entry has them for this pixel and the next one, and so serves two taps of a
// row. For example, 6 channels of 5 x 5 taps take 25 + 15 quads, 160 values for 150 products. Four quads are an mma
// step, one for each of four lanes.
__host__ __device__ constexpr int full_entries(int C) { return C / 4 + (C % 4 == 3); }
__host__ __device__ constexpr bool has_rest(int C) { return C % 4 == 1 || C % 4 == 2; }
__host__ __device__ constexpr int entries(int C) { return full_entries(C) + has_rest(C); }
__host__ __device__ constexpr int quads(int C, int K) {
  return K * (K * full_entries(C) + has_rest(C) * ((K + 1) / 2));
}
__host__ __device__ constexpr int steps(int C, int K) { return (quads(C, K) + 3) / 4; }

struct Quad {
  int p, q, entry;  // the tap, and the number of the entry at that tap's pixel
  bool rest;        // whether it is a quad of the channels left over, for taps (p, q) and (p, q + 1)
};

__device__ inline Quad quad_at(int i, int C, int K) {
  const int full = full_entries(C), in_full = K * K * full;
  if (i < in_full) return {i / K % K, i % K, i / (K * K), false};
  const int rest = i - in_full, per_row = (K + 1) / 2;
  return {rest / per_row, rest % per_row * 2, full, true};
}

struct Seen {
  unsigned top = 0;         // bits of the largest high parts' magnitudes, two halves; infinity and NaN are the largest
  uint32_t smallest = ~0u;  // nonzero_bits of the smallest nonzero value
};

__device__ inline uint4 split4(float a, float b, float c, float d, float scale, Seen* seen) {
  const SplitPair ab = split_pair(a * scale, b * scale), cd = split_pair(c * scale, d * scale);
  seen->top = __vmaxu2(seen->top, __vmaxu2(ab.hi & 0x7fff7fffu, cd.hi & 0x7fff7fffu));
  const uint32_t of_ab = min(nonzero_bits(a), nonzero_bits(b)), of_cd = min(nonzero_bits(c), nonzero_bits(d));
  seen->smallest = min(seen->smallest, min(of_ab, of_cd));
  return make_uint4(ab.hi, cd.hi, ab.lo, cd.lo);
}

// Stages kEntries entries of every pixel, from channel `first` on. A thread has kEntries * kPixels * 4 loads in flight.
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

// Stages `pixels` pixels of all channels. Returns the properties of this thread's values; `top` is the bits of one
// half.
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

inline size_t shared_bytes(const fops_conv& c, int64_t rows, int warps) {
  const int C = static_cast<int>(c.C);
  const int64_t depth = steps(C, static_cast<int>(c.K)), groups = ceil_div(c.M, 8);
  const int64_t outgoing = 4 * warps * 8 * groups * outgoing_stride(static_cast<int>(groups));
  const int64_t staged = 16 * (rows + c.K - 1) * c.W * entries(C);
  return 16 * depth * groups * 32 + outgoing + staged + 16 * (depth + 2);
}

// Returns the number of warps per block, from 4 to max_warps, for which the fewest warps are idle in the last round of
// chunks of a band.
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

// Returns the number of output rows per band, with as few bands per image as fit into `limit` bytes of shared memory; 0
// if not even a band of one row fits.
inline int64_t band_rows(const fops_conv& c, size_t limit) {
  const int64_t OH = out_h(c);
  for (int64_t bands = 1; bands <= OH; ++bands) {
    const int64_t rows = ceil_div(OH, bands);
    if (shared_bytes(c, rows, warps_for(static_cast<int>(ceil_div(c.M, 8)), rows, out_w(c))) <= limit) return rows;
  }
  return 0;
}

}  // namespace fops::channel_quads
