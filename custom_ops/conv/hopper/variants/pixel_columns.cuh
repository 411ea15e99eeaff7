// For pixel_columns.cu: staging of a band of an image, and the products from staged pixels to outputs.
#pragma once

#include "gpu/divide.cuh"
#include "gpu/isa/halves.cuh"
#include "gpu/isa/mma.cuh"

namespace fops::pixel_columns {

constexpr int kChunk = 16;  // outputs that a warp computes at a time: two mma tiles of 8 columns

// Two neighbouring taps (p, q) and (p, q + 1) are a pair, two halves in a 32-bit register. With an odd K, the second
// weight of a row's last pair is zero. For K = 5 there are 15 pairs, padded to two mma steps of 8 pairs.
__host__ __device__ constexpr int pairs_per_row(int K) { return (K + 1) / 2; }
__host__ __device__ constexpr int steps(int K) { return (K * pairs_per_row(K) + 7) / 8; }

// Stages `count` pixels in their order in memory: word i of `hi` is (x[i], x[i + 1]), scaled and rounded to halves. If
// kResidue, also stores the rounding errors in `lo`. Returns whether this thread's values are all exact in half
// precision.
template <bool kResidue, int kThreads, typename X>
__device__ bool stage(const X* source, int count, bool vector, float scale, uint32_t* hi, uint32_t* lo) {
  bool exact = true;
  for (int first = 4 * threadIdx.x; first < count; first += 8 * kThreads) {
    float v[2][5] = {};
#pragma unroll
    for (int j = 0; j < 2; ++j) {  // starts the loads of both groups before either is used
      const int i = first + j * 4 * kThreads;
      if (i >= count) break;
      if (vector) {
        const Four<X> four = *reinterpret_cast<const Four<X>*>(source + i);
#pragma unroll
        for (int e = 0; e < 4; ++e) v[j][e] = static_cast<float>(four.at[e]);
      } else {
#pragma unroll
        for (int e = 0; e < 4; ++e) v[j][e] = i + e < count ? static_cast<float>(source[i + e]) : 0.0f;
      }
      if (i + 4 < count) v[j][4] = static_cast<float>(source[i + 4]);
    }
#pragma unroll
    for (int j = 0; j < 2; ++j) {
      const int i = first + j * 4 * kThreads;
      if (i >= count) break;
      uint32_t high[4], low[4];
#pragma unroll
      for (int e = 0; e < 4; ++e)
        exact = round_pair<kResidue, true>(v[j][e] * scale, v[j][e + 1] * scale, high + e, low + e) && exact;
      *reinterpret_cast<uint4*>(hi + i) = make_uint4(high[0], high[1], high[2], high[3]);
      if (kResidue) *reinterpret_cast<uint4*>(lo + i) = make_uint4(low[0], low[1], low[2], low[3]);
    }
  }
  return exact;
}

// Splits the weights of M filters into the registers that the mma needs. `half`: whether low parts are set to zero.
template <int K, int kTiles>
__device__ void load_weights(const float* k, int M, float scale, bool half, uint32_t (&weights)[kTiles][steps(K)][4]) {
  const int lane = threadIdx.x % 32, g = lane / 4, t = lane % 4;
#pragma unroll
  for (int tile = 0; tile < kTiles; ++tile)
#pragma unroll
    for (int i = 0; i < 2 * steps(K); ++i) {
      const int m = tile * 8 + g, pair = i * 4 + t, p = pair / pairs_per_row(K), q = pair % pairs_per_row(K) * 2;
      const bool real = m < M && p < K;
      const Split a = split_enlarged(real ? k[(m * K + p) * K + q] * scale : 0.0f);
      const Split b = split_enlarged(real && q + 1 < K ? k[(m * K + p) * K + q + 1] * scale : 0.0f);
      weights[tile][i / 2][i % 2 * 2] = pack(a.hi, b.hi);
      weights[tile][i / 2][i % 2 * 2 + 1] = half ? 0 : pack(a.lo, b.lo);
    }
}

// Loads a lane's pairs of pixels for output number `output` of a band. `offset`: the pairs' byte offsets from the
// output's top left pixel.
template <int K>
__device__ __forceinline__ void load_pairs(const uint32_t* words, int output, uint32_t inverse_OW,
                                           const int (&offset)[2 * steps(K)], uint32_t (&in)[2 * steps(K)]) {
  const char* corner = reinterpret_cast<const char*>(words + output + divide(output, inverse_OW) * (K - 1));
#pragma unroll
  for (int i = 0; i < 2 * steps(K); ++i) in[i] = *reinterpret_cast<const uint32_t*>(corner + offset[i]);
}

// Adds a step's products to `sum`. The tensor cores truncate what they add up, so if the pixels are not exact, whose
// split loses bits too, the step's sum is added in float32.
template <bool kExact>
__device__ __forceinline__ void add_products(float (&sum)[4], const uint32_t (&weights)[4], uint32_t a, uint32_t b) {
  if constexpr (kExact) return mma(sum, weights, a, b);
  float of_step[4];
  mma_first(of_step, weights, a, b);
#pragma unroll
  for (int e = 0; e < 4; ++e) sum[e] += of_step[e];
}

// Computes outputs `first` to `end` - 1 of a band from staged pixels, and stores them at `to_band`: in global memory
// (kDirect) or in shared memory. `first` is a multiple of kChunk; `end` is too, or is the band's end.
template <bool kExact, bool kDirect, int kWarps, int K, int kTiles>
__device__ void multiply(const uint32_t (&weights)[kTiles][steps(K)][4], const int (&offset)[2 * steps(K)],
                         float unscale, float rescale, const uint32_t* hi, const uint32_t* lo, float* to_band,
                         int stride, int M, int first, int end, uint32_t inverse_OW) {
  constexpr int kSteps = steps(K);
  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32, g = lane / 4, t = lane % 4;
  const auto load = [&](int chunk, const uint32_t* words, uint32_t (&in)[2][2 * kSteps]) {
#pragma unroll
    for (int j = 0; j < 2; ++j)
      load_pairs<K>(words, min(chunk + g / 2 * 4 + 2 * j + g % 2, end - 1), inverse_OW, offset, in[j]);
  };
  uint32_t in[2][2 * kSteps], ahead[2][2 * kSteps];  // pixels of this chunk; of the next one, loaded early
  load(first + warp * kChunk, hi, ahead);
  for (int chunk = first + warp * kChunk; chunk < end; chunk += kWarps * kChunk) {
#pragma unroll
    for (int j = 0; j < 2; ++j)
#pragma unroll
      for (int i = 0; i < 2 * kSteps; ++i) in[j][i] = ahead[j][i];
    load(chunk + kWarps * kChunk, hi, ahead);
    uint32_t rest[2][2 * kSteps];
    if (!kExact) load(chunk, lo, rest);

    const bool inside = chunk + 4 * t < end;
    float* to = to_band + g * stride + chunk + 4 * t;
#pragma unroll
    for (int tile = 0; tile < kTiles; ++tile, to += 8 * stride) {
      float sum[2][4] = {}, small[2][4] = {};  // products with the pixels' high parts; with their low parts
#pragma unroll
      for (int step = 0; step < kSteps; ++step)
#pragma unroll
        for (int j = 0; j < 2; ++j) {
          if (!kExact) mma(small[j], weights[tile][step], rest[j][2 * step], rest[j][2 * step + 1]);
          add_products<kExact>(sum[j], weights[tile][step], in[j][2 * step], in[j][2 * step + 1]);
        }
      const float u = unscale;
      const auto whole = [&](int j, int e) {
        constexpr float kBack = 1.0f / kLowScale;
        float low = sum[j][e + 2];
        if (!kExact) low += small[j][e] + small[j][e + 2] * kBack;
        return (sum[j][e] + low * kBack) * u;
      };
      float4 v = make_float4(whole(0, 0), whole(0, 1), whole(1, 0), whole(1, 1));
      if (!kExact) v = make_float4(v.x * rescale, v.y * rescale, v.z * rescale, v.w * rescale);
      if (!kDirect)
        store_shared(to, v);
      else if (inside && tile * 8 + g < M)
        __stcs(reinterpret_cast<float4*>(to), v);  // evict first: plain stores took 2.4 times as long here
    }
  }
}

}  // namespace fops::pixel_columns
