// For warpgroup_images.cu: the work of a producer warpgroup, which stages images for a consumer warpgroup.
#pragma once

#include "conv/hopper/scheduler.cuh"
#include "conv/hopper/variants/warpgroup_images.cuh"

namespace fops::warpgroup_images {

constexpr int kTeams = 2, kMaxSlots = 2;  // teams per block; maximum slots (staged images) per team

// How an image's outputs are computed. halves: by the tensor cores. mixed: by the tensor cores; then outputs that use
// an unsplittable value are recomputed by the float32 fallback. fallback: all by the float32 fallback. end: there are
// no more images.
enum class Path : int { halves, mixed, fallback, end };
struct Staged {
  unsigned image;        // number of the image
  float scale, unscale;  // the pixels' scale; factor that undoes it and the weights' scale
  Path path;
};

struct Shared {
  unsigned scratch;  // for weight_scale
  struct Team {
    uint64_t full[kMaxSlots], empty[kMaxSlots];  // mbarriers: a slot's image has been staged; may be overwritten
    Staged staged[kMaxSlots];
    unsigned next, tops[2][kWarps];  // the shared word of PersistentTilesOf; two buffers for group_max
  } teams[kTeams];
};

struct Slots {
  uint32_t* words;
  int count, plane;  // number of slots, each a plane of high parts and a plane of low parts; words of a plane with kPad
  __device__ uint32_t* high(int slot) const { return words + slot * 2 * plane; }
};

// For PersistentTilesOf (scheduler.cuh): the tasks of a team, which are images.
struct ByTeam {
  static __device__ unsigned first() { return blockIdx.x + threadIdx.x / kThreads % kTeams * gridDim.x; }
  static __device__ unsigned stride() { return kTeams * gridDim.x; }
  static __device__ bool asks() { return threadIdx.x % kThreads == 0; }
};

// Stages a team's images, and after the last one publishes Path::end. `group`: this warpgroup's number in the block.
// `has_room`: whether Path::mixed is possible. `minimum`: see min_scaled. `weights_unscale`: the factor that undoes the
// weights' scale, times HalvesOut::scale if there is one; 0 if the weights cannot be split well.
template <int kWords>
__device__ __forceinline__ void stage_images(const Dims& d, int group, const Slots& slots, bool vector, bool has_room,
                                             float minimum, float weights_unscale, const float* __restrict__ x,
                                             unsigned* counters, Shared::Team& team) {
  const int thread = threadIdx.x % kThreads;
  const int pixels = d.H * d.W;
  const long long image_floats = static_cast<long long>(d.C) * pixels;
  PersistentTilesOf<ByTeam> schedule;
  PipelineState state;
  const auto publish = [&](const Staged& staged) {
    if (thread == 0) team.staged[state.stage] = staged;
    barrier_arrive(&team.full[state.stage]);
    state.next(slots.count);
  };
#pragma unroll 1
  while (schedule.now < d.B) {
    const float* source = x + schedule.now * image_floats;
    if (schedule.next < d.B && vector && thread == 0)
      bulk_prefetch_l2(x + schedule.next * image_floats, d.C * pixels * 4);
    barrier_wait(&team.empty[state.stage], state.phase ^ 1);
    uint32_t *hi = slots.high(state.stage), *lo = hi + slots.plane;
    warpgroup_sync(group);  // waits until all threads have read the previous image's `tops` and `next`
    schedule.claim(&team.next, counters);
    float scale = kImageScale;
    const Seen seen = split_own<kWords>(thread, source, d.C, pixels, vector, scale, hi, lo);
    const unsigned top = group_max(seen.top_or_small(minimum / scale), group, team.tops[0]);
    Path path = Path::halves;
    if (!(top >= __half_as_ushort(__float2half_rn(kWindowLow)) &&
          top <= __half_as_ushort(__float2half_rn(kWindowHigh))) ||
        !(weights_unscale > 0.0f)) {
      const float mine = own_largest(thread, source, d.C, pixels, vector);
      const float largest = __uint_as_float(group_max(__float_as_uint(mine), group, team.tops[1]));
      scale = scale_for(largest);
      warpgroup_sync(group);  // waits until all threads have read `tops`
      const bool mixed = group_max(seen.smallest < nonzero_bits(minimum / scale), group, team.tops[1]);
      if (mixed) path = Path::mixed;
      if (!(weights_unscale > 0.0f) || !(largest < kLargestScaled) || (mixed && !has_room)) path = Path::fallback;
      if (path != Path::fallback) split_own<kWords>(thread, source, d.C, pixels, vector, scale, hi, lo);
    }
    // With HalvesOut::scale, the factor may be outside float32's range. (A power of two is exact down to 2^-149.)
    const float unscale = weights_unscale / scale;
    if (!(unscale > 0.0f && unscale < __int_as_float(0x7f800000))) path = Path::fallback;
    publish({schedule.now, scale, unscale, path});
    schedule.advance(&team.next);
  }
  barrier_wait(&team.empty[state.stage], state.phase ^ 1);
  publish({0, 0.0f, 0.0f, Path::end});
}

}  // namespace fops::warpgroup_images
