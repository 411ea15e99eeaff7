// For column_major_tiles.cu: the state that its warps share, and the weights.
#pragma once

#include "conv/hopper/pipeline.cuh"
#include "conv/hopper/variants/column_major_tasks.cuh"
#include "gpu/isa/halves.cuh"

namespace fops::column_major {

// A team of two warpgroups computes 64 columns. Its consumer warpgroup multiplies, in turn with the other team's. In
// its second warpgroup three producer warps split pixels, and place the words of a column's channels side by side, so
// that K columns are a run that lanes read 16 bytes at a time; the fourth warp stores outputs.
constexpr int kTeams = 2;  // teams per block
constexpr int kThreads = 2 * 128 * kTeams;
constexpr int kScales = 4;   // number of tasks whose scales are in shared memory
constexpr int kBuffers = 4;  // buffers per team for chunks of pixels

// kWords: number of pairs of channels, which are a word of two halves each; must be even. kPhase: number of rows of
// pixels that are multiplied together, 1 or 2.
template <int K_, int kFilters_, int kWords_, int kPhase_>
struct Form {
  static constexpr int K = K_, kFilters = kFilters_, kWords = kWords_, kPhase = kPhase_;
  static constexpr int kSteps = (K * kWords + 7) / 8;                // steps of wgmma per row of pixels
  static constexpr int kPlaces = K + kPhase - 1;                     // output rows that a phase's pixels belong to
  static constexpr int kStored = (K + 2 * (kPhase - 1)) * kFilters;  // columns of weights, with zeros at both ends
  static constexpr int kRows = 4;                                    // rows of pixels per chunk
  static constexpr int kOutgoing = 8 / kPhase;                       // phases of outputs in flight
  static constexpr int kOutputs = kPhase * kFilters * kStride;       // floats per phase of outputs
  // Registers per consumer thread and per thread of the other warpgroups; together they fill an SM's registers.
  static constexpr int kConsumerRegisters = 208, kProducerRegisters = 48;

  static_assert(kWords % 2 == 0, "operands are read 16 bytes at a time");
  static_assert(kPhase * kSteps % 2 == 0, "a phase begins with the registers that the one before did not end with");
  static_assert(kPhase == 1 || K % 2 == 1, "a phase completes kPhase rows of outputs, or none");
};

template <typename Form>
struct Shared {
  uint64_t full[kTeams][kBuffers], empty[kTeams][kBuffers];  // mbarriers: a chunk of pixels may be read; overwritten
  uint64_t full_out[kTeams][Form::kOutgoing], empty_out[kTeams][Form::kOutgoing];  // the same for a phase of outputs
  uint32_t needs_fallback[kTeams][kBuffers];  // number of the latest chunk (from 1) with an unsplittable value
  ImageScale scales[kTeams][kScales][kMaxImages];
  float unscale[Form::kFilters];              // factors that undo the filters' scales
  float image_unscale[kTeams][kTileColumns];  // factors that undo the scales of the columns' images
  uint32_t weights_need_fallback;             // whether a weight is unsplittable
};

// The lane map. Lane 4g + t of warp w, g = 0..7, t = 0..3, holds these of a step's eight words of K columns of pixels:
//
//   A: column 16w + g        words 2t -> a0, 2t + 1 -> a2        D: column 16w + g      filters 2t, 2t+1 of every eight
//      column 16w + g + 8          2t -> a1, 2t + 1 -> a3           column 16w + g + 8  the same
struct Operands {
  uint32_t high[4], low[4];
  __device__ __forceinline__ void load(const uint2* a, const uint2* b) {
    const uint4 v = *reinterpret_cast<const uint4*>(a), w = *reinterpret_cast<const uint4*>(b);
    high[0] = v.x, high[1] = w.x, high[2] = v.z, high[3] = w.z;
    low[0] = v.y, low[1] = w.y, low[2] = v.w, low[3] = w.w;
  }
  // Called after the wait for the wgmma that read the operands: see keep_register.
  __device__ __forceinline__ void keep() {
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      keep_register(high[i]);
      keep_register(low[i]);
    }
  }
};

// Splits the weights and stores them as wgmma reads them: [step][half of the depth][high, low][column][8 halves];
// columns are [row of weights][filter]. In step s, lane t of four has words 8 s + 2 t and 8 s + 2 t + 1 of the K *
// kWords words of a row: the first word is 2 t and 2 t + 1 of the depth, the second word 2 t + 8 and 2 t + 9. The
// consumer threads call this.
template <typename Form>
__device__ void split_weights(const Dims& d, float threshold, const float* __restrict__ k, float* staged,
                              uint4* weights, Shared<Form>& shared) {
  constexpr int K = Form::K, kFilters = Form::kFilters, kStored = Form::kStored;
  const auto split = [&](int i) {
    const int column = i % kStored, half = i / kStored % 2, step = i / (2 * kStored);
    const int m = column % kFilters, p = column / kFilters - (Form::kPhase - 1);
    const float scale = 1.0f / shared.unscale[m];
    uint4 hi, lo;
    hopper::split_eight(
        [&](int t) {
          const int word = 8 * step + 2 * t + half, q = word / Form::kWords, c = word % Form::kWords * 2;
          const float* from = staged + ((m * d.C + c) * K + p) * K + q;
          const bool real = q < K && m < d.M && p >= 0 && p < K;
          const float a = real ? *from : 0.0f, b = real && c + 1 < d.C ? from[K * K] : 0.0f;
          return make_float2(a * scale, b * scale);
        },
        &hi, &lo);
    uint4* to = weights + (2 * step + half) * 2 * kStored + column;
    to[0] = hi;
    to[kStored] = lo;
  };
  split_filters<128 * kTeams, kFilters>(d, threshold, k, staged, kColumnTilesWeights, Form::kSteps * 2 * kStored,
                                        shared.unscale, &shared.weights_need_fallback, split);
}

}  // namespace fops::column_major
