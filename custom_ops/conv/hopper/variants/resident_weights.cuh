// For image_bands_resident.cu: a block splits the weights of its filters itself, into tiles that wgmma reads.
//
//   raw     copies of the filters, `pitch` floats apart, with zeros after each   a warp copies and splits eight filters
//   table   the offsets of a unit's eight weights in a filter                    other warps compute it meanwhile
//   tiles   the split weights, step after step                   lane 4 f + e splits weights 2 e and 2 e + 1 of filter f
#pragma once

#include "conv/hopper/pipeline.cuh"
#include "conv/hopper/split.cuh"

namespace fops::hopper {

constexpr int kPackers = 256;          // number of threads that split weights
constexpr int kTogether = 8;           // filters per warp
constexpr int kMaxResidentSteps = 64;  // maximum number of steps
constexpr int kUnitsAhead = 6;         // units that a warp splits together
constexpr int kUnitsBehind =
    4 * kUnitsAhead;  // units after the table's last one, with zero weights: warps read this far

// Floats from one raw filter to the next, including the zeros after it: a multiple of 32 plus 4. A warp reads eight
// filters and four pairs of weights at a time; with the padding there are at most two-way bank conflicts, without it
// eight-way.
__host__ __device__ inline int resident_pitch(int count) { return (count + 31) / 32 * 32 + 4; }
__host__ __device__ inline size_t resident_raw_bytes(int count, int filters) {
  return sizeof(float) * filters * resident_pitch(count);
}

// Returns a unit's row of the table: the byte offsets of its eight weights in a filter, two per word. A missing weight
// has the offset of a zero, as do all weights of a unit past the last one.
__device__ inline uint4 resident_weights_at(const Dims& d, const Plan& plan, const Steps& steps, int unit) {
  const uint16_t origin = unit >= 2 * plan.steps ? kNoUnit : steps.origins[1][unit];
  const int channel = origin >> 8;
  const int p = origin >> 4 & 15, q = origin & 15, first = (channel * d.K + p) * d.K + q, zero = d.C * d.K * d.K;
  const int channels = channel < 8 * plan.chunks.full ? 8 : plan.chunks.narrow, shift = __ffs(channels) - 1;
  uint32_t words[4];
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    uint32_t at[2];
#pragma unroll
    for (int n = 0; n < 2; ++n) {
      const int e = 2 * i + n, c = e & (channels - 1), column = e >> shift;
      const bool real = (origin != kNoUnit) & (channel + c < d.C) & (q + column < d.K);
      at[n] = sizeof(float) * (real ? first + c * d.K * d.K + column : zero);
    }
    words[i] = at[0] | at[1] << 16;
  }
  return make_uint4(words[0], words[1], words[2], words[3]);
}

// The layout of weights in shared memory: per unit the high parts of kCount filters, 16 bytes each, then their low parts
// (see image_bands.cu). kStepBytes: bytes per step. kUnit: bytes from a step's first unit to its second. kLow: bytes
// from high parts to low parts.
template <int kCount>
struct ColumnTile {
  static constexpr int kFilters = kCount, kStepBytes = 4 * kCount * 16, kUnit = 2 * kCount * 16, kLow = kCount * 16;
};

// The weights of a warp's eight filters. kShare warps have the same filters, and divide the units among them.
template <typename Layout>
struct ResidentWeights {
  static constexpr int kFilters = Layout::kFilters, kGroups = kFilters / kTogether, kWarps = kPackers / 32;
  static constexpr int kShare = kWarps / kGroups;
  static_assert(kShare == 2 || kShare == 4, "or their units do not follow one another evenly");

  int lane,          // this thread's lane
      first,         // the warp's first filter
      real,          // how many of its eight filters exist
      share;         // the warp's number among those with the same filters
  int count, pitch;  // weights per filter; floats from one raw filter to the next
  float* all;        // the warp's raw filters
  const char* raw;   // the lane's raw filter

  __device__ ResidentWeights(const Dims& d, float* room, int filters)
      : lane(threadIdx.x % 32), first(threadIdx.x / 32 % kGroups * kTogether), real(min(kTogether, filters - first)),
        share(threadIdx.x / 32 / kGroups), count(d.C * d.K * d.K), pitch(resident_pitch(count)),
        all(room + first * pitch), raw(reinterpret_cast<const char*>(all + lane / 4 * pitch)) {}

  // Copies the warp's filters, or its share of their weights; `k`: the block's filters. For filters that do not exist
  // it copies nothing. (If it copied the last filter again, many blocks would wait for the same lines of L2.)
  __device__ void fetch(const float* k) const {
    const float* from = k + (first + lane / 4) * count;  // four lanes per filter
    float* to = all + lane / 4 * pitch;
    const int end = share < kShare && lane / 4 < real ? count : 0, begin = lane % 4 + 4 * share;
    if (count % 4 == 0 && reinterpret_cast<uintptr_t>(k) % 16 == 0) {
#pragma unroll 4
      for (int i = 4 * begin; i < end; i += 16 * kShare)
        copy_async_16(reinterpret_cast<__half*>(to + i), reinterpret_cast<const __half*>(from + i), true);
    } else {
#pragma unroll 4
      for (int i = begin; i < end; i += 4 * kShare) copy_async_4(shared_address(to + i), from + i);
    }
    if (share == 0) all[lane / 4 * pitch + count + lane % 4] = 0.0f;
    copy_async_wait_all();
    __syncwarp();  // needed before a named barrier too, because lanes executed different numbers of iterations
    named_barrier(kResidentWeights, kPackers);
  }

  // Returns the scale of the lane's filter. *fits receives whether no weight is unsplittable; unscale[filter] receives
  // the factor that undoes the scale, or 0 if *fits is false.
  __device__ float choose_scale(float threshold, float* unscale, bool* fits) const {
    uint32_t largest = 0,  // twice the bits of the largest magnitude
        smallest = ~0u;    // nonzero_bits of the smallest nonzero weight
#pragma unroll 4
    for (int i = lane % 4; i < (count + 3) / 4; i += 4) {
      const float4 v = reinterpret_cast<const float4*>(raw)[i];
#pragma unroll
      for (int n = 0; n < 4; ++n) {
        const uint32_t twice = 2 * __float_as_uint(n == 0 ? v.x : n == 1 ? v.y : n == 2 ? v.z : v.w);
        largest = max(largest, twice), smallest = min(smallest, twice - 1);
      }
    }
#pragma unroll
    for (int i = 1; i < 4; i *= 2) {
      largest = max(largest, __shfl_xor_sync(0xffffffffu, largest, i));
      smallest = min(smallest, __shfl_xor_sync(0xffffffffu, smallest, i));
    }
    const float maximum = __uint_as_float(largest / 2);  // NaN if any weight is NaN, whose bits are the largest
    const bool finite = maximum < kLargestScaled;
    const float scale = finite ? scale_for(maximum) : 1.0f, undo = inverse_power(scale);
    *fits = lane / 4 >= real || (finite && smallest >= nonzero_bits(threshold * undo));
    if (lane % 4 == 0 && share == 0 && lane / 4 < real) unscale[first + lane / 4] = *fits ? undo : 0.0f;
    return scale;
  }

  // Splits the warp's filters, or its share of their units, into `tiles`.
  __device__ void split(const uint4* table, int steps, float scale, uint8_t* tiles) const {
    constexpr int kAhead = kUnitsAhead, kStep = Layout::kStepBytes;
    if (share >= kShare) return;
    const int units = (2 * steps - share + kShare - 1) / kShare;
    const uint32_t* at = reinterpret_cast<const uint32_t*>(table + share) + lane % 4;
    uint8_t* to = tiles + share / 2 * kStep + share % 2 * Layout::kUnit + (first + lane / 4) * 16 + lane % 4 * 4;
#pragma unroll 1
    for (int begin = 0; begin < units; begin += kAhead) {
      uint32_t place[kAhead];
      float v[kAhead][2];
#pragma unroll
      for (int n = 0; n < kAhead; ++n) place[n] = at[4 * kShare * n];
#pragma unroll
      for (int n = 0; n < kAhead; ++n) {
        v[n][0] = *reinterpret_cast<const float*>(raw + (place[n] & 0xffff)) * scale;
        v[n][1] = *reinterpret_cast<const float*>(raw + (place[n] >> 16)) * scale;
      }
#pragma unroll
      for (int n = 0; n < kAhead; ++n) {
        const SplitPair parts = split_pair(v[n][0], v[n][1]);
        uint8_t* const here = to + n * (kShare / 2 * kStep);
        if (begin + n < units) {
          *reinterpret_cast<uint32_t*>(here) = parts.hi;
          *reinterpret_cast<uint32_t*>(here + Layout::kLow) = parts.lo;
        }
      }
      at += 4 * kShare * kAhead, to += kAhead * kShare / 2 * kStep;
    }
  }
};

}  // namespace fops::hopper
