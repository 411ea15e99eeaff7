// bands.cu: how a convolution is cut, and a band of an image on its way into shared memory.
#pragma once

#include "conv/cuda/12_tensor_core/any_shape/plain.cuh"
#include "conv/cuda/12_tensor_core/any_shape/staging.cuh"

namespace fops {
namespace bands {

using namespace any_shape;  // slots, units and steps (plan.h), splitting, the plain road

constexpr int kGroups = 2, kThreads = 128 * kGroups;  // warpgroups and threads a block
constexpr int kTile = 64;                             // positions a warpgroup computes at a time: a wgmma's rows
constexpr int kStride = kTile + 4;  // floats between two filters' outputs on their way out: 4 banks

struct Tiling {
  Chunks chunks;  // all slots in one chunk
  int rows;       // output rows a band
  int bands;      // bands an image
  int steps;      // wgmma steps over all units
  uint32_t table[kMostSteps];  // where a step's first unit begins | how far behind it the second does, << 16: entries
  uint32_t inverse_W;
  Divisor by_bands;
  bool room;        // for the weights as they are, before bands take their place
  float threshold;  // least scaled magnitude that has a good split: see ImageScale

  __host__ __device__ int staged(const Dims& d) const { return (rows + d.K - 1) * d.W; }  // positions
};

// What was seen of a band's values.
struct Band {
  uint32_t smallest = ~0u;  // magnitude but zero, as nonzero_bits
  bool infinite = false;    // whether one has no high half
};

// Splits 8 values, scaled, and stores them.
__device__ inline void split_entry(const float (&v)[8], float scale, uint4* high_to, uint4* low_to, Band* seen) {
  uint32_t hi[4], lo[4], largest = 0;
#pragma unroll
  for (int e = 0; e < 4; ++e) {
    const SplitPair parts = split_pair(v[2 * e] * scale, v[2 * e + 1] * scale);
    hi[e] = parts.hi, lo[e] = parts.lo;
    largest = __vmaxu2(largest, hi[e] & 0x7fff7fffu);
    seen->smallest = min(seen->smallest, min(nonzero_bits(v[2 * e]), nonzero_bits(v[2 * e + 1])));
  }
  if (largest + 0x04000400u & 0x80008000u) {  // one of them is 0x7c00 or more
    seen->infinite = true;
    drop_not_finite(hi, lo);
  }
  *high_to = make_uint4(hi[0], hi[1], hi[2], hi[3]);
  *low_to = make_uint4(lo[0], lo[1], lo[2], lo[3]);
}

// One slot of `count` positions of a band. `left`: values of a plane from the band's first on; what lies past them, and
// past the last channel, meets zero weights and is the last value again, so that no branch comes between loads.
template <int kChannels>
__device__ void stage_slot(const Dims& d, const float* band, int left, int channel, int count, float scale,
                           uint4* high_to, uint4* low_to, Band* seen) {
  constexpr int kEntries = 2;  // a thread's at a time: 16 loads in flight
  const int pixels = d.H * d.W;
  int plane[kChannels];
#pragma unroll
  for (int c = 0; c < kChannels; ++c) plane[c] = min(channel + c, d.C - 1) * pixels;
#pragma unroll 1
  for (int i = threadIdx.x; i < count; i += kEntries * kThreads) {
    float v[kEntries][8];
#pragma unroll
    for (int n = 0; n < kEntries; ++n)
#pragma unroll
      for (int neighbour = 0; neighbour < 8 / kChannels; ++neighbour) {
        const float* from = band + min(i + n * kThreads + neighbour, left - 1);
#pragma unroll
        for (int c = 0; c < kChannels; ++c) v[n][neighbour * kChannels + c] = __ldg(from + plane[c]);
      }
#pragma unroll
    for (int n = 0; n < kEntries; ++n)
      if (const int at = i + n * kThreads; at < count) split_entry(v[n], scale, high_to + at, low_to + at, seen);
  }
}

// All slots of a band: [slot][position] high halves, and the low ones `low` entries behind them.
__device__ inline Band stage_band(const Tiling& tiling, const Dims& d, const float* band, int left, int count,
                                  float scale, uint4* to, int low) {
  Band seen;
  for (int s = 0; s < tiling.chunks.slots(); ++s, to += tiling.staged(d)) {
    const Slot slot = tiling.chunks.slot(s);
    const auto stage = [&](auto channels) {
      stage_slot<decltype(channels)::value>(d, band, left, slot.channel, count, scale, to, to + low, &seen);
    };
    switch (slot.channels) {
      case 8: stage(std::integral_constant<int, 8>()); break;
      case 4: stage(std::integral_constant<int, 4>()); break;
      case 2: stage(std::integral_constant<int, 2>()); break;
      default: stage(std::integral_constant<int, 1>());
    }
  }
  return seen;
}

}  // namespace bands
}  // namespace fops
