// Any shape on Hopper, small batches: a block packs the weights of its tile of filters itself, as pack_weights would
// have laid them out, in place of a kernel before it.
//
//   raw     eight filters a warp, `pitch` floats apart, zeros behind each   a warp copies its own, and packs them
//   table   of each unit and two of its eight weights, where they are       worked out by other warps meanwhile
//   tiles   step after step                        lane 4 f + e has weights 2 e and 2 e + 1 of a unit of filter f
#pragma once

#include "conv/cuda/12_tensor_core/any_shape/pack.cuh"
#include "gpu/isa/bulk_copy.cuh"

namespace fops {
namespace any_shape {

constexpr int kPackers = 256;     // threads
constexpr int kTogether = 8;      // filters of a warp
constexpr int kOwnSteps = 64;     // at most
constexpr int kUnitsAhead = 6;    // that a warp splits together
constexpr int kOwnUnits = 2 * kOwnSteps + 2 * kUnitsAhead;  // of the table: those behind the last have zeros

// Where 32 lanes with 8 filters and 4 pairs of channels read, or four neighbours each, banks are shared by two at most.
__host__ __device__ inline int own_pitch(int count) { return (count + 31) / 32 * 32 + 4; }
__host__ __device__ inline size_t own_raw_bytes(int count) {
  return sizeof(float) * kPackers / 32 * kTogether * own_pitch(count);
}

// A unit's row of the table: byte offsets in a filter, two a word, of its eight weights; that of a zero where one is
// missing, and for units behind the last.
__device__ inline uint4 own_weights_at(const Dims& d, const Plan& plan, const Steps& steps, int unit) {
  int chunk = 0, step = unit / 2;
  for (; chunk < plan.chunk_count - 1 && step >= plan.first_steps; ++chunk) step -= plan.first_steps;
  const bool last = chunk == plan.chunk_count - 1;
  const uint16_t origin = last && step >= plan.last_steps ? kNoUnit : steps.origins[last][2 * step + unit % 2];
  const int channel = plan.chunks.slot(chunk * plan.chunks.a_chunk).channel + (origin >> 8);
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

// kStacked: a tile's rows are high and low halves of 32 filters; else it has 64 filters and the low halves behind it.
template <bool kStacked>
struct OwnWeights {
  static constexpr int kFilters = kStacked ? kTileRows / 2 : kTileRows;
  static constexpr int kStepBytes = (kStacked ? 1 : 2) * kTileBytes;
  static constexpr int kGroups = kFilters / kTogether, kShare = kPackers / 32 / kGroups;  // of filters; warps that share one
  static_assert(kShare == 1 || kShare == 2, "they share a step's halves");

  int lane, first, real, share;  // the warp's first filter, how many of its are there, and which half is its own
  int count, pitch;              // weights of a filter; floats from one to the next
  char* raw;                     // of the lane's filter

  __device__ OwnWeights(const Dims& d, float* all, int filters)
      : lane(threadIdx.x % 32), first(threadIdx.x / 32 % kGroups * kTogether), real(min(kTogether, filters - first)),
        share(threadIdx.x / 32 / kGroups), count(d.C * d.K * d.K), pitch(own_pitch(count)),
        raw(reinterpret_cast<char*>(all + (threadIdx.x / 32 * kTogether + lane / 4) * pitch)) {}

  // Copies the warp's filters; k: the tile's.
  __device__ void fetch(const float* k) const {
    const float* from = k + min(first + lane / 4, first + real - 1) * count;  // four lanes a filter; some the last again
    float* to = reinterpret_cast<float*>(raw);
    const int l = lane % 4;
    if (count % 4 == 0 && reinterpret_cast<uintptr_t>(k) % 16 == 0) {
#pragma unroll 4
      for (int i = 4 * l; i < count; i += 16)
        copy_async_16(reinterpret_cast<__half*>(to + i), reinterpret_cast<const __half*>(from + i), true);
    } else {
#pragma unroll 4
      for (int i = l; i < count; i += 4) copy_async_4(shared_address(to + i), from + i);
    }
    to[count + l] = 0.0f;
    copy_async_wait_all();
    __syncwarp();
  }

  // The scale of the lane's filter; unscale[filter] undoes it, or is 0 where it has none: then *fits is false.
  __device__ float choose_scale(float threshold, float* unscale, bool* fits) const {
    uint32_t largest = 0, smallest = ~0u;  // twice a magnitude's bits, and as nonzero_bits
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
    const float most = __uint_as_float(largest / 2);  // NaN comes out as NaN: no number is less
    const bool finite = most < kLargestScaled;
    const float scale = finite ? scale_for(most) : 1.0f, undo = inverse_power(scale);
    *fits = finite && smallest >= nonzero_bits(threshold * undo);
    if (lane % 4 == 0 && share == 0 && lane / 4 < real) unscale[first + lane / 4] = *fits ? undo : 0.0f;
    return scale;
  }

  // Splits the warp's filters, or its share of their units, into the tiles.
  __device__ void split(const uint4* table, int steps, float scale, uint8_t* tiles) const {
    constexpr int kAhead = kUnitsAhead, kLow = kStacked ? 8 * 16 : kTileBytes;  // from high halves to low ones
    const int row = kStacked ? first / 8 * 16 + lane / 4 : first + lane / 4, units = 2 * steps / kShare;
    const uint32_t* at = reinterpret_cast<const uint32_t*>(table + share) + lane % 4;
    uint8_t* to = tiles + row_bytes(row, share) + lane % 4 * 4;
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
        uint8_t* const here = to + (kShare == 1 ? n / 2 * kStepBytes + n % 2 * kTileDepth : n * kStepBytes);
        if (begin + n < units) {
          *reinterpret_cast<uint32_t*>(here) = parts.hi;
          *reinterpret_cast<uint32_t*>(here + kLow) = parts.lo;
        }
      }
      at += 4 * kShare * kAhead, to += kAhead * kShare / 2 * kStepBytes;
    }
  }
};

}  // namespace any_shape
}  // namespace fops
