// warpgroup_images.cu: the producer warpgroup, which stages images for the consumers.
#pragma once

#include "conv/hopper/pipeline.cuh"
#include "conv/hopper/scheduler.cuh"
#include "conv/hopper/variants/warpgroup_images_operands.cuh"

namespace fops {
namespace pixel_words {

constexpr int kTeams = 2, kMaxSlots = 2;  // teams per block; staged images per team, as many as shared memory holds

// How an image's outputs are computed. halves: on the tensor cores. mixed: likewise, but those that use an unsplittable
// value are then recomputed by the float32 fallback. fallback: all of them by the float32 fallback. end: there are no
// more images.
enum class Path : int { halves, mixed, fallback, end };
// The consumer warpgroup's information about the image in a slot.
struct Staged {
  unsigned image;
  float scale, unscale;  // the pixels' scale; factor that undoes it and the weights' scale
  Path path;
};

struct Shared {
  unsigned scratch;  // for weight_scale
  struct Team {
    uint64_t full[kMaxSlots], empty[kMaxSlots];  // barriers: a slot's image has been staged; it is no longer needed
    Staged staged[kMaxSlots];
    unsigned next, tops[2][kWarps];  // the slot of scheduler.cuh; two buffers for group_max, used in turn
  } teams[kTeams];
};

struct Slots {
  uint32_t* words;
  int count, plane;  // words of a plane, kPad included: a slot is a plane of high and one of low halves
  __device__ uint32_t* high(int slot) const { return words + slot * 2 * plane; }
};

// A team's images, as in scheduler.cuh.
struct ByTeam {
  static __device__ unsigned first() { return blockIdx.x + threadIdx.x / kThreads % kTeams * gridDim.x; }
  static __device__ unsigned stride() { return kTeams * gridDim.x; }
  static __device__ bool asks() { return threadIdx.x % kThreads == 0; }
};

// Stages a team's images, and after the last one signals the end to the other warpgroup. `group`: this warpgroup's
// number in the block. `minimum`: see min_scaled. `weights_unscale`: the factor that undoes the weights' scale, times
// HalvesOut::scale; 0 if the weights have no scale.
template <int kWords>
__device__ __forceinline__ void stage_images(const Dims& d, int group, const Slots& slots, bool vector, bool has_room,
                                             float minimum, float weights_unscale, const float* __restrict__ x,
                                             unsigned* counters, Shared::Team& team) {
  const Threads own = {static_cast<int>(threadIdx.x % kThreads), kThreads};
  const int pixels = d.H * d.W;
  const long long image_floats = static_cast<long long>(d.C) * pixels;
  PersistentTilesOf<ByTeam> schedule;
  PipelineState state;
  const auto publish = [&](const Staged& staged) {
    if (own.rank == 0) team.staged[state.stage] = staged;
    barrier_arrive(&team.full[state.stage]);
    state.next(slots.count);
  };
#pragma unroll 1
  while (schedule.now < d.B) {
    const float* source = x + schedule.now * image_floats;
    // The next image is prefetched into L2 while this one is split.
    if (schedule.next < d.B && vector && own.rank == 0)
      bulk_prefetch_l2(x + schedule.next * image_floats, d.C * pixels * 4);
    barrier_wait(&team.empty[state.stage], state.phase ^ 1);
    uint32_t *hi = slots.high(state.stage), *lo = hi + slots.plane;
    warpgroup_sync(group);  // the previous image's tops and `next` have been read
    schedule.claim(&team.next, counters);
    float scale = kImageScale;
    const Seen seen = split_own<kWords, 1>(own, source, d.C, pixels, vector, scale, hi, lo);
    const unsigned top = group_max(seen.top_or_small(minimum / scale), group, team.tops[0]);
    Path path = Path::halves;
    if (!(top >= __half_as_ushort(__float2half_rn(kWindowLow)) &&
          top <= __half_as_ushort(__float2half_rn(kWindowHigh))) || !(weights_unscale > 0.0f)) {
      const float mine = own_largest(own, source, d.C, pixels, vector);
      const float largest = __uint_as_float(group_max(__float_as_uint(mine), group, team.tops[1]));
      scale = scale_for(largest);
      warpgroup_sync(group);  // the tops have been read
      const bool mixed = group_max(seen.smallest < nonzero_bits(minimum / scale), group, team.tops[1]);
      if (mixed) path = Path::mixed;
      if (!(weights_unscale > 0.0f) || !(largest < kLargestScaled) || (mixed && !has_room)) path = Path::fallback;
      if (path != Path::fallback) split_own<kWords, 1>(own, source, d.C, pixels, vector, scale, hi, lo);
    }
    // Times HalvesOut::scale, the factor may not be a float; a power of two is exact down to 2^-149.
    const float unscale = weights_unscale / scale;
    if (!(unscale > 0.0f && unscale < __int_as_float(0x7f800000))) path = Path::fallback;
    publish({schedule.now, scale, unscale, path});
    schedule.advance(&team.next);
  }
  barrier_wait(&team.empty[state.stage], state.phase ^ 1);
  publish({0, 0.0f, 0.0f, Path::end});
}

}  // namespace pixel_words
}  // namespace fops
