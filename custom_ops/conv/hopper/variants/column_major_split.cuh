// column_major_split.cu: what its warps share, and the weights.
#pragma once

#include "conv/hopper/pipeline.cuh"
#include "conv/hopper/variants/column_major_tasks.cuh"
#include "gpu/isa/halves.cuh"

namespace fops {
namespace column_major_split {

using column_major::Column;
using column_major::each;
using column_major::kMaxImages;
using column_major::kProducerThreads;
using column_major::kStride;
using column_major::kTileColumns;
using column_major::Number;
using column_major::Places;
using column_major::Task;
using column_major::Tiling;
using column_major::OutputColumn;

// A block's five warpgroups: one multiplies high halves, one low halves, two stage every second row of pixels each, one
// stores. The first one that stages has a warp without columns, which chooses the images' scales.
constexpr int kThreads = 5 * 128, kConsumerThreads = 2 * 128, kStoreThreads = 128;
// Registers of their threads. A block has as many as at its start, when all threads have the same: a warpgroup that
// asked for one more would wait forever.
constexpr int kHighRegisters = 168, kLowRegisters = 152, kProducerRegisters = 56, kStoreRegisters = 48;
constexpr int kAtStart = 65536 / kThreads / 8 * 8;
static_assert(kHighRegisters + kLowRegisters + 2 * kProducerRegisters + kStoreRegisters <= kThreads / 128 * kAtStart,
              "");
// Tasks whose scales are in shared memory. A task may be one row of outputs: then storing is up to three tasks behind
// multiplying, staging two ahead of it, and the choice of scales three.
constexpr int kScales = 8;
constexpr int kBuffers = 4;  // chunks of pixels in shared memory
// Rows of outputs on their way. More of them, or of chunks, are slower: the first-level cache, which pixels are loaded
// through, has what shared memory leaves.
constexpr int kOutgoing = 3;

// kWords: pairs of channels, a word of two halves each.
template <int K_, int kFilters_, int kWords_>
struct Form {
  static constexpr int K = K_, kFilters = kFilters_, kWords = kWords_;
  static constexpr int kSteps = (K * kWords + 7) / 8;            // of wgmma, a row of pixels
  static constexpr int kColumns = K * kFilters;                  // of wgmma
  static constexpr int kStored = (2 * K - 1) * kFilters;         // columns of weights
  static constexpr int kRows = 4;                                // of pixels, a chunk
  static constexpr int kOutputs = kFilters * kStride;            // floats of a row of outputs on their way, of one sum
  static constexpr int kEach = kFilters / (kStoreThreads / 32);  // filters of a warp that stores
  static_assert(kFilters % 8 == 0 && kWords % 2 == 0 && kRows % 2 == 0, "");
};

template <typename Form>
struct Shared {
  // A chunk of pixels may be read, or written; a row of outputs likewise.
  uint64_t full[kBuffers], empty[kBuffers], full_out[kOutgoing], empty_out[kOutgoing];
  uint64_t chosen, staging;           // a task's scales may be read; they have been read
  uint32_t needs_fallback[kBuffers];  // the latest chunk, counted from 1, with an unsplittable value
  ImageScale scales[kScales][kMaxImages];
  float unscale[Form::kFilters];   // undoes a filter's scale
  uint32_t weights_need_fallback;  // whether a weight is unsplittable
  FallbackScratch room;
};

// Weights as wgmma reads them: [step][half of the depth][high, low][place][filter][8 halves]. Place j has row -j mod K
// of the filters: K places from any one on are all rows, in turn. In step s lane t of four has words 8 s + 2 t and the
// next one of a pixel's row, K columns of kWords: the first is 2 t and 2 t + 1 of the depth, the second those 8 further
// on. Called by the consumer threads.
template <typename Form>
__device__ void split_weights(const Dims& d, float threshold, const float* __restrict__ k, float* staged,
                              uint4* weights, Shared<Form>& shared) {
  constexpr int K = Form::K, kFilters = Form::kFilters, kStored = Form::kStored;
  const auto split = [&](int i) {
    const int m = i % kFilters, p = i / kFilters % K, half = i / Form::kColumns % 2, step = i / (2 * Form::kColumns);
    const float scale = 1.0f / shared.unscale[m];
    uint4 hi, lo;
    hopper::split_eight(
        [&](int t) {
          const int word = 8 * step + 2 * t + half, q = word / Form::kWords, c = word % Form::kWords * 2;
          const float* from = staged + ((m * d.C + c) * K + p) * K + q;
          const bool real = q < K && m < d.M;
          const float a = real && c < d.C ? *from : 0.0f, b = real && c + 1 < d.C ? from[K * K] : 0.0f;
          return make_float2(a * scale, b * scale);
        },
        &hi, &lo);
    for (int place = (K - p) % K; place < 2 * K - 1; place += K) {
      uint4* to = weights + (2 * step + half) * 2 * kStored + place * kFilters + m;
      to[0] = hi;
      to[kStored] = lo;
    }
  };
  column_major::split_filters<kConsumerThreads, kFilters>(d, threshold, k, staged, kColumnSplitWeights,
                                               Form::kSteps * 2 * Form::kColumns, shared.unscale,
                                               &shared.weights_need_fallback, split);
}

}  // namespace column_major_split
}  // namespace fops
