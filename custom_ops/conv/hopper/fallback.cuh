// The float32 fallback: recomputes outputs that depend on an unsplittable value (ImageScale in split.cuh), without
// tensor cores.
#pragma once

#include "conv/hopper/epilogue.cuh"
#include "conv/hopper/split.cuh"

namespace fops {

// Whether the outputs at a position depend on an unsplittable pixel. `corner` is the offset in x of the position's
// window.
template <typename X>
__device__ __noinline__ bool any_unsplittable(const Dims& d, const X* x, int corner, const ImageScale& by) {
  bool found = false;  // the loop has no early exit, so that its loads overlap
  const int taps = d.C * d.K * d.K;
  int p = 0, q = 0;
  const X* at = x + corner;
#pragma unroll 8
  for (int i = 0; i < taps; ++i) {
    found |= is_unsplittable(at[p * d.W + q], by);
    if (++q == d.K) {
      q = 0;
      if (++p == d.K) p = 0, at += d.H * d.W;
    }
  }
  return found;
}

// The pixels of a task that are unsplittable in some channel (about one in 100 million of a network's activations), in
// shared memory. A search for this list reads each pixel once, while `any_unsplittable` reads it again for every output
// that uses it.
struct Unsplittable {
  static constexpr int kMax = 31;
  int count;         // may exceed kMax: then the list is incomplete
  int pixels[kMax];  // the pixels' offsets in x, in channel 0

  // Whether the outputs whose window begins at offset `corner` of x depend on one of these pixels.
  template <typename X>
  __device__ bool enters(const Dims& d, const X* x, int corner, const ImageScale& by) const {
    if (count > kMax) return any_unsplittable(d, x, corner, by);
    bool found = false;
    for (int n = 0; n < count; ++n) {
      const int rows = pixels[n] / d.W - corner / d.W, columns = pixels[n] % d.W - corner % d.W;
      found |= rows >= 0 && rows < d.K && columns >= 0 && columns < d.K;
    }
    return found;
  }
};

// Adds to *found the unsplittable ones of `pixels` pixels of an image, from x + first on. `threads` threads call this.
// The caller must have set found->count to 0.
template <typename X>
__device__ __noinline__ void find_unsplittable(const Dims& d, const X* x, const ImageScale& by, int first, int pixels,
                                               Unsplittable* found, int thread, int threads) {
  const int plane = d.H * d.W;
  for (int i = first + thread; i < first + pixels; i += threads) {
    bool needs_fallback = false;
#pragma unroll 8
    for (int c = 0; c < d.C; ++c) needs_fallback |= is_unsplittable(x[c * plane + i], by);
    if (needs_fallback)
      if (const int n = atomicAdd(&found->count, 1); n < Unsplittable::kMax) found->pixels[n] = i;
  }
}

// Computes the outputs of some filters at some positions without tensor cores. `list` has `count` indices of positions.
// For position i, offsets[i] is the offset in y of filter 0's output, and corners[i] the offset in x of the window's
// first pixel. `threads` threads call this.
//
// A warp computes kFilters filters at kPositions positions at a time. The products of an output are divided among the
// lanes in the order of the weights in memory, so that loads are coalesced. A lane adds kChain products in float32, and
// these sums in double: longer float32 chains lose more than the bound allows. The order of additions depends only on C
// and K. Two filters at a time, and shuffles that show the compiler which loops are uniform, keep this function from
// increasing the registers of the kernels that call it.
template <typename X, typename Y>
__device__ __noinline__ void fallback_outputs(const Dims& d, const X* x, const float* k, Y y, const int* offsets,
                                              const int* corners, const int* list, int count, int m0, int filters,
                                              int thread, int threads) {
  constexpr int kFilters = 2, kPositions = 4, kChain = 4;
  const int taps = d.C * d.K * d.K, lane = thread % 32, end = min(m0 + filters, d.M);
  const auto uniform = [](int value) { return __shfl_sync(0xffffffffu, value, 0); };
  const int pairs = (end - m0 + kFilters - 1) / kFilters;
  const int units = uniform(pairs * ((count + kPositions - 1) / kPositions)), warps = uniform(threads / 32);
#pragma unroll 1
  for (int unit = uniform(thread / 32); unit < units; unit += warps) {
    const int m = m0 + unit % pairs * kFilters, n = unit / pairs * kPositions;
    const float* weights[kFilters];  // past the last filter or position, repeats the last one
    const X* corner[kPositions];
#pragma unroll
    for (int a = 0; a < kFilters; ++a) weights[a] = k + 1LL * min(m + a, end - 1) * taps;
#pragma unroll
    for (int b = 0; b < kPositions; ++b) corner[b] = x + corners[list[min(n + b, count - 1)]];
    double sum[kFilters][kPositions] = {};
#pragma unroll 1
    for (int begin = 0; begin < taps; begin += 32 * kChain) {
      float part[kFilters][kPositions] = {};
      float v[kChain][kPositions], w[kChain][kFilters];
#pragma unroll
      for (int j = 0; j < kChain; ++j) {  // has no branch: with one, each load would wait for the previous one
        const int tap = min(begin + 32 * j + lane, taps - 1), c = tap / (d.K * d.K), p = tap / d.K - c * d.K;
        const int from = (c * d.H + p) * d.W + tap - (c * d.K + p) * d.K;
#pragma unroll
        for (int b = 0; b < kPositions; ++b) v[j][b] = static_cast<float>(corner[b][from]);
#pragma unroll
        for (int a = 0; a < kFilters; ++a) w[j][a] = __ldg(weights[a] + tap);
      }
#pragma unroll
      for (int j = 0; j < kChain; ++j)
        if (begin + 32 * j + lane < taps)
#pragma unroll
          for (int a = 0; a < kFilters; ++a)
#pragma unroll
            for (int b = 0; b < kPositions; ++b) part[a][b] += v[j][b] * w[j][a];
#pragma unroll
      for (int a = 0; a < kFilters; ++a)
#pragma unroll
        for (int b = 0; b < kPositions; ++b) sum[a][b] += part[a][b];
    }
    float mine = 0.0f;  // in lane a * kPositions + b: the output of filter m + a at position n + b
#pragma unroll
    for (int i = 0; i < kFilters * kPositions; ++i) {
      double all = sum[i / kPositions][i % kPositions];
#pragma unroll
      for (int by = 16; by > 0; by /= 2) all += __shfl_xor_sync(0xffffffffu, all, by);
      if (lane == i) mine = static_cast<float>(all);
    }
    const int a = lane / kPositions, b = lane % kPositions;
    if (a < kFilters && m + a < end && n + b < count)
      put(y, output_at(y, m + a, offsets[list[n + b]], d.M, d.OH * d.OW), mine);
  }
}

// Shared memory in which 128 threads prepare the arguments of fallback_outputs.
struct FallbackScratch {
  int offsets[128], corners[128];
  int list[128], listed;  // listed: length of the list
  Unsplittable found;
};

// Computes the output rows row0 to row0 + rows - 1 of an image without tensor cores, because it has infinities, NaN, or
// values too far apart for one scale. The products of a row of taps are added in float32, and these sums in double: one
// long float32 chain would lose more than the bound allows. Rarely needed, so the function is simple rather than fast.
template <typename X, typename Y>
__device__ void fallback_image_band(const X* x, const float* k, Y y, int C, int H, int W, int M, int K, int row0,
                                    int rows, int thread = threadIdx.x, int threads = blockDim.x) {
  const int OH = H - K + 1, OW = W - K + 1;
  for (int i = thread; i < M * rows * OW; i += threads) {
    const int m = i / (rows * OW), h = row0 + i / OW % rows, w = i % OW;
    double sum = 0.0;
    for (int c = 0; c < C; ++c)
      for (int p = 0; p < K; ++p) {
        float part = 0.0f;
        for (int q = 0; q < K; ++q)
          part += static_cast<float>(x[(c * H + h + p) * W + w + q]) * k[((m * C + c) * K + p) * K + q];
        sum += part;
      }
    put(y, output_at(y, m, h * OW + w, M, OH * OW), static_cast<float>(sum));
  }
}

}  // namespace fops
