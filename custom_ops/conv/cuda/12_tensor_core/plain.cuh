// On Hopper: the road for values that have no good split.
#pragma once

#include "conv/cuda/12_tensor_core/destination.cuh"
#include "conv/cuda/dims.h"
#include "gpu/isa/halves.cuh"

namespace fops {

// An image's values are multiplied by a power of two of its own before they are split, so that an image's result
// depends on nothing but the image. A value beside the others has no good split: scaled beyond half's largest, infinite,
// NaN, or below `least` but not zero. Outputs that it enters take the plain road.
struct ImageScale {
  float scale, least;  // powers of two but for the threshold in `least`
};

template <typename X>
__device__ inline bool is_beyond(X x, const ImageScale& by) {
  const float v = static_cast<float>(x);
  const bool large = (__half_as_ushort(__float2half_rn(v * by.scale)) & 0x7fff) >= 0x7c00;
  return large || nonzero_bits(v) < nonzero_bits(by.least);
}

// Whether a value that has no good split enters the outputs at a position: what the staging asks, value by value.
template <typename X>
__device__ __noinline__ bool any_beyond(const Dims& d, const X* x, int corner, const ImageScale& by) {
  bool found = false;  // without a way out in between, so that loads overlap
  const int taps = d.C * d.K * d.K;
  int p = 0, q = 0;
  const X* at = x + corner;
#pragma unroll 8
  for (int i = 0; i < taps; ++i) {
    found |= is_beyond(at[p * d.W + q], by);
    if (++q == d.K) {
      q = 0;
      if (++p == d.K) p = 0, at += d.H * d.W;
    }
  }
  return found;
}

// The pixels under a task's outputs that have, in some channel, a value without a good split: one in 100 million of a
// network's activations. They are looked for once, where `any_beyond` looks at each pixel again for every output that
// it enters (one such value then added 0.42 ms to fa2019's second layer). In shared memory.
struct Found {
  static constexpr int kMost = 31;
  int count;          // may exceed kMost: then not all of them are here
  int pixels[kMost];  // where they lie from x on, channels aside

  // Whether one of them enters the outputs at `corner`, which lies in x.
  template <typename X>
  __device__ bool enters(const Dims& d, const X* x, int corner, const ImageScale& by) const {
    if (count > kMost) return any_beyond(d, x, corner, by);
    bool found = false;
    for (int n = 0; n < count; ++n) {
      const int rows = pixels[n] / d.W - corner / d.W, columns = pixels[n] % d.W - corner % d.W;
      found |= rows >= 0 && rows < d.K && columns >= 0 && columns < d.K;
    }
    return found;
  }
};

// Looks for them among `pixels` pixels, from x + first on, of one image. By `threads` threads; found->count has been
// set.
template <typename X>
__device__ __noinline__ void find_beyond(const Dims& d, const X* x, const ImageScale& by, int first, int pixels,
                                         Found* found, int thread, int threads) {
  const int plane = d.H * d.W;
  for (int i = first + thread; i < first + pixels; i += threads) {
    bool beyond = false;
#pragma unroll 8
    for (int c = 0; c < d.C; ++c) beyond |= is_beyond(x[c * plane + i], by);
    if (beyond)
      if (const int n = atomicAdd(&found->count, 1); n < Found::kMost) found->pixels[n] = i;
  }
}

// Outputs of some filters at some positions, in plain float32: infinities, NaN, and values too far apart for one scale.
// `list` are places in `offsets` (positions in y: where filter 0's output lies) and `corners`.
//
// A warp computes kFilters filters at kPositions positions at a time. Its lanes take turns at the products, in the
// order that a filter's weights have in memory: neighbours load neighbours. Each lane's sums of kChain products meet in
// doubles: a chain of C K K float32 sums would lose more than the bound allows (any_shape/plan.h), and so did one of
// the channels (128 of them, 1x1: 1.4 times the bound). The order of sums depends on C and K alone. What calls this is to
// keep its registers: with four filters at a time some kernels spilled, and where the loops around the shuffles were not
// seen to be the same for all lanes, they lost their uniform registers (3 to 64, 7x7, 112x112, 1.35 and 1.88 ms).
template <typename X, typename Y>
__device__ __noinline__ void plain_outputs(const Dims& d, const X* x, const float* k, Y y, const int* offsets,
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
    const float* weights[kFilters];  // past the last filter, and the last position, the last one again
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
      for (int j = 0; j < kChain; ++j) {  // without a branch, or one load would wait for the other
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
    float mine = 0.0f;  // lane a * kPositions + b has that output
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

// What a group of 128 threads needs for it, in shared memory.
struct PlainRoom {
  int offsets[128], corners[128];  // see plain_outputs
  int list[128], listed;
  Found found;
};

}  // namespace fops
