// For pixel_columns.cu with few filters: a column of the product is two neighbouring outputs.
//
//   weights of output s of a column, K = 5:   s = 0   k0 k1 k2 k3 k4  0
//                                             s = 1    0 k0 k1 k2 k3 k4
//
// With an odd K, the second tap of a row's last pair is free for the shifted filter. So the same pixels serve both
// outputs, which halves the loads. Output 0 is in rows g = 0..7 of a tile, output 1 in rows g + 8, and a lane has four
// outputs in a row. Rows g and g + 8 of
//
//   two tiles     are filter g of eight: the high parts of its weights in the first tile, the low parts in the second
//   a last tile   are filter g / 2 of four: the high parts if g is even, otherwise the low parts; lanes exchange sums
#pragma once

#include "conv/hopper/variants/pixel_columns.cuh"

namespace fops::pixel_columns {

constexpr int kFiltersOfTile = 4;  // filters per tile: two tiles have eight together

template <int K, int kTiles>
__device__ void load_pair_weights(const float* k, int M, float scale, bool half,
                                  uint32_t (&weights)[kTiles][steps(K)][4]) {
  const int lane = threadIdx.x % 32, g = lane / 4, t = lane % 4;
#pragma unroll
  for (int tile = 0; tile < kTiles; ++tile) {
    const bool both = tile == kTiles - 1 && kTiles % 2 != 0;
    const int m = tile / 2 * 8 + (both ? g / 2 : g);
    const bool low = both ? g % 2 != 0 : tile % 2 != 0;
#pragma unroll
    for (int i = 0; i < 2 * steps(K); ++i) {
      const int pair = i * 4 + t, p = pair / pairs_per_row(K), q = pair % pairs_per_row(K) * 2;
#pragma unroll
      for (int shift = 0; shift < 2; ++shift) {
        Split at[2];
#pragma unroll
        for (int e = 0; e < 2; ++e) {
          const int column = q + e - shift;
          const bool real = m < M && p < K && column >= 0 && column < K;
          at[e] = split_enlarged(real ? k[m * K * K + p * K + column] * scale : 0.0f);
        }
        weights[tile][i / 2][i % 2 * 2 + shift] = !low ? pack(at[0].hi, at[1].hi) : half ? 0 : pack(at[0].lo, at[1].lo);
      }
    }
  }
}

// Computes outputs like `multiply`, and stores them in shared memory. `end` is even, because output rows have even
// lengths.
template <bool kExact, int kWarps, int K, int kTiles>
__device__ void multiply_pairs(const uint32_t (&weights)[kTiles][steps(K)][4], const int (&offset)[2 * steps(K)],
                               float unscale, float rescale, const uint32_t* hi, const uint32_t* lo, float* to_band,
                               int stride, int first, int end, uint32_t inverse_OW) {
  constexpr int kSteps = steps(K);
  constexpr float kBack = 1.0f / kLowScale;
  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32, g = lane / 4, t = lane % 4;
  const bool odd = g % 2 != 0;
  const auto load = [&](int chunk, const uint32_t* words, uint32_t (&in)[2 * kSteps]) {
    load_pairs<K>(words, min(chunk + 2 * g, end - 2), inverse_OW, offset, in);
  };
  // In a last tile: the factors of this lane's sum and of the other lane's sum in an output.
  const float mine = odd ? unscale * kBack : unscale, others = odd ? unscale : unscale * kBack;
  uint32_t in[2][2 * kSteps];  // pixels of this chunk and of the next one, loaded early, in turn
  load(first + warp * kChunk, hi, in[0]);
  const auto products = [&](int chunk, const uint32_t (&now)[2 * kSteps], uint32_t (&next)[2 * kSteps]) {
    load(chunk + kWarps * kChunk, hi, next);
    uint32_t rest[2 * kSteps];
    if (!kExact) load(chunk, lo, rest);
    float sum[kTiles][4] = {}, small[kTiles][4] = {};  // products with the pixels' high parts; with their low parts
#pragma unroll
    for (int step = 0; step < kSteps; ++step)
#pragma unroll
      for (int tile = 0; tile < kTiles; ++tile) {
        if (!kExact) mma(small[tile], weights[tile][step], rest[2 * step], rest[2 * step + 1]);
        add_products<kExact>(sum[tile], weights[tile][step], now[2 * step], now[2 * step + 1]);
      }
    if (!kExact)
#pragma unroll
      for (int tile = 0; tile < kTiles; ++tile)
#pragma unroll
        for (int e = 0; e < 4; ++e) sum[tile][e] += small[tile][e] * kBack;
    float* to = to_band + chunk + 4 * t;
#pragma unroll
    for (int tile = 0; tile + 1 < kTiles; tile += 2) {
      float v[4];
#pragma unroll
      for (int e = 0; e < 4; ++e) {
        v[e] = (sum[tile][e] + sum[tile + 1][e] * kBack) * unscale;
        if (!kExact) v[e] *= rescale;
      }
      store_shared(to + (tile * 4 + g) * stride, make_float4(v[0], v[2], v[1], v[3]));
    }
    if constexpr (kTiles % 2 != 0) {
      // A lane with an even g keeps column 2t, a lane with an odd g column 2t + 1.
      const auto& last = sum[kTiles - 1];
      float v[2];
#pragma unroll
      for (int shift = 0; shift < 2; ++shift) {
        const float first_column = last[2 * shift], second = last[2 * shift + 1];
        const float kept = odd ? second : first_column, given = odd ? first_column : second;
        v[shift] = kept * mine + __shfl_xor_sync(0xffffffffu, given, 4) * others;
        if (!kExact) v[shift] *= rescale;
      }
      *reinterpret_cast<float2*>(to + ((kTiles - 1) * 4 + g / 2) * stride + (odd ? 2 : 0)) = make_float2(v[0], v[1]);
    }
  };
  for (int chunk = first + warp * kChunk; chunk < end; chunk += 2 * kWarps * kChunk) {
    products(chunk, in[0], in[1]);
    if (chunk + kWarps * kChunk < end) products(chunk + kWarps * kChunk, in[1], in[0]);
  }
}

}  // namespace fops::pixel_columns
