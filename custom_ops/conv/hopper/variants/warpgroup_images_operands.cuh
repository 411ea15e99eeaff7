// For warpgroup_images.cu: the operands of wgmma, which are pixels in registers and weights in shared memory.
#pragma once

#include "conv/hopper/pipeline.cuh"
#include "conv/hopper/variants/pixel_words.cuh"

namespace fops {
namespace pixel_words {

constexpr int kWarps = 4, kThreads = 32 * kWarps;  // warps and threads of a warpgroup, which computes an image
constexpr int kWalks = 64;

// The circular buffer of weights has the filters' rows 0, 4, 3, 2, 1, 0, 4, 3, 2, so that the five rows from place (5 -
// r) % 5 on are those that sums 0 to 4 need at input row r. A row has the layout that wgmma reads: "core matrices" of 8
// filters by 4 words (128 bytes), first along the filters' words, then along filters. There is a buffer of high parts,
// then one of low parts.
constexpr int kPlaces = 2 * K - 1, kCore = 32;  // words of a core matrix
__host__ __device__ constexpr int place_words(int kSteps) { return kFilters / 8 * 2 * kSteps * kCore; }
__host__ __device__ constexpr int weight_words(int kSteps) { return kPlaces * place_words(kSteps); }

// Returns the largest `value` of a warpgroup's threads. `tops`: one word of shared memory per warp.
__device__ inline unsigned group_max(unsigned value, int group, unsigned* tops) {
  value = warp_max(value);
  if (threadIdx.x % 32 == 0) tops[threadIdx.x % kThreads / 32] = value;
  warpgroup_sync(group);
#pragma unroll
  for (int i = 0; i < kWarps; ++i) value = max(value, tops[i]);
  return value;
}

// The operands of one input row: this lane's words of walks g and g + 8 of its warp.
template <int kSteps>
struct Operands {
  uint32_t high[kSteps][4], low[kSteps][4];
  __device__ void load(int s, const uint32_t* a, const uint32_t* b, int plane) {
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      high[s][2 * i] = a[8 * s + 4 * i], high[s][2 * i + 1] = b[8 * s + 4 * i];
      low[s][2 * i] = a[plane + 8 * s + 4 * i], low[s][2 * i + 1] = b[plane + 8 * s + 4 * i];
    }
  }
  // Called after the wait for the wgmma that read these operands: see keep_register.
  __device__ void keep(int s) {
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      keep_register(high[s][i]);
      keep_register(low[s][i]);
    }
  }
};

}  // namespace pixel_words
}  // namespace fops
