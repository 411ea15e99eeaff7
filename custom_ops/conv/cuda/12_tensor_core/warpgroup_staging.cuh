// warpgroup.cu: the warpgroup that stages images for those that multiply.
#pragma once

#include "conv/cuda/12_tensor_core/warpgroup_ring.cuh"
#include "gpu/claims.cuh"
#include "gpu/isa/bulk_copy.cuh"

namespace fops {
namespace few_filters {

constexpr int kTeams = 2, kMostSlots = 2;  // of a block; of a team: staged images, as many as shared memory holds

// How an image's outputs are made. halves: by the tensor cores. mixed: so, but those that a value without a good split
// enters once more in plain float32. plain: all of them in plain float32. end: there is no more image.
enum class Road : int { halves, mixed, plain, end };
// What the multiplying warpgroup has to know of the image in a slot.
struct Staged {
  unsigned image;
  float scale, unscale;  // its pixels', and what undoes that and the weights' scale
  Road road;
};

struct Shared {
  unsigned scratch;  // of weight_scale
  struct Team {
    uint64_t full[kMostSlots], empty[kMostSlots];  // barriers: a slot's image has been staged; it is no longer needed
    Staged staged[kMostSlots];
    unsigned next, tops[2][kWarps];  // the slot of claims.cuh; two of group_max, in use one after the other
  } teams[kTeams];
};

struct Slots {
  uint32_t* words;
  int count, plane;  // words of a plane, kPad included: a slot is one of high and one of low halves
  __device__ uint32_t* high(int slot) const { return words + slot * 2 * plane; }
};

// A team's images, as in claims.cuh.
struct ByTeam {
  static __device__ unsigned first() { return blockIdx.x + threadIdx.x / kThreads % kTeams * gridDim.x; }
  static __device__ unsigned stride() { return kTeams * gridDim.x; }
  static __device__ bool asks() { return threadIdx.x % kThreads == 0; }
};

// Stages a team's images, and behind the last one tells the other warpgroup the end. `group`: this warpgroup's number
// in the block. `least`: see least_scaled. `weights_unscale`: what undoes the weights' scale, times HalvesOut::scale; 0
// where the weights have no scale.
template <int kWords>
__device__ __forceinline__ void stage_images(const Dims& d, int group, const Slots& slots, bool vector, bool has_room,
                                             float least, float weights_unscale, const float* __restrict__ x,
                                             unsigned* counters, Shared::Team& team) {
  const Threads own = {static_cast<int>(threadIdx.x % kThreads), kThreads};
  const int pixels = d.H * d.W;
  const long long image_floats = static_cast<long long>(d.C) * pixels;
  TurnsOf<ByTeam> turns;
  Place place;
  const auto publish = [&](const Staged& staged) {
    if (own.rank == 0) team.staged[place.at] = staged;
    barrier_arrive(&team.full[place.at]);
    place.next(slots.count);
  };
#pragma unroll 1
  while (turns.now < d.B) {
    const float* source = x + turns.now * image_floats;
    // The next image is on its way into L2 while this one is split.
    if (turns.next < d.B && vector && own.rank == 0)
      bulk_prefetch_l2(x + turns.next * image_floats, d.C * pixels * 4);
    barrier_wait(&team.empty[place.at], place.phase ^ 1);
    uint32_t *hi = slots.high(place.at), *lo = hi + slots.plane;
    warpgroup_sync(group);  // the image before this one: its tops and `next` have been read
    turns.claim(&team.next, counters);
    float scale = kImageScale;
    const Seen seen = split_own<kWords, 1>(own, source, d.C, pixels, vector, scale, hi, lo);
    const unsigned top = group_max(seen.top_or_small(least / scale), group, team.tops[0]);
    Road road = Road::halves;
    if (!(top >= __half_as_ushort(__float2half_rn(kWindowLow)) &&
          top <= __half_as_ushort(__float2half_rn(kWindowHigh))) || !(weights_unscale > 0.0f)) {
      const float mine = own_largest(own, source, d.C, pixels, vector);
      const float largest = __uint_as_float(group_max(__float_as_uint(mine), group, team.tops[1]));
      scale = scale_for(largest);
      warpgroup_sync(group);  // the tops have been read
      const bool mixed = group_max(seen.smallest < nonzero_bits(least / scale), group, team.tops[1]);
      if (mixed) road = Road::mixed;
      if (!(weights_unscale > 0.0f) || !(largest < kLargestScaled) || (mixed && !has_room)) road = Road::plain;
      if (road != Road::plain) split_own<kWords, 1>(own, source, d.C, pixels, vector, scale, hi, lo);
    }
    // With HalvesOut::scale in it, it may be no float. As a power of two it is exact down to 2^-149.
    const float unscale = weights_unscale / scale;
    if (!(unscale > 0.0f && unscale < __int_as_float(0x7f800000))) road = Road::plain;
    publish({turns.now, scale, unscale, road});
    turns.advance(&team.next);
  }
  barrier_wait(&team.empty[place.at], place.phase ^ 1);
  publish({0, 0.0f, 0.0f, Road::end});
}

}  // namespace few_filters
}  // namespace fops
