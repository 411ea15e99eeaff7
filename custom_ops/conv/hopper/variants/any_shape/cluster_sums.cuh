// For any_shape.cu, small batches: the blocks of a cluster divide the depth of a task's sums.
//
//   block 0   chain chain .. small | chain chain .. small |            each segment's sums go to global memory
//   block 1                                               chain chain .. small | ..
//             --------------------- cluster barrier ---------------------
//   block 0   columns  0 to 15: adds all blocks' sums, in order        So an output has the same bits as if one block
//   block 1   columns 16 to 31: the same                               computed the whole depth.
#pragma once

#include "conv/hopper/pipeline.cuh"
#include "conv/hopper/variants/any_shape/launch.h"

namespace fops::hopper {

// The sums of a task, which the blocks of a cluster keep for one another in global memory.
template <int kColumns>
struct KeptSums {
  static constexpr int kEights = kColumns / 8;  // groups of eight columns; a thread has four values of each
  const float4* all;                            // sums of the whole task
  uint32_t* marks;                              // per part: see Packed::marks
  int part, parts, maximum;  // this block's part; number of parts; number of sums per part for which there is space
  int count = 0;             // number of sums that this block has kept

  __device__ KeptSums(const Packed& packed, const Plan& plan, uint32_t task, int part)
      : all(packed.kept + 1LL * task * plan.parts * plan.kept * kEights * kConsumerThreads),
        marks(packed.marks + task * plan.parts), part(part), parts(plan.parts), maximum(plan.kept) {}

  __device__ int at(int of_part, int sum, int eight) const {
    return ((of_part * maximum + sum) * kEights + eight) * kConsumerThreads + threadIdx.x;
  }
  __device__ bool owns(int eight) const { return eight * parts / kEights == part; }

  __device__ void keep(const float (&sum)[kColumns / 2]) {
    float4* to = const_cast<float4*>(all);
#pragma unroll
    for (int j = 0; j < kEights; ++j)
      to[at(part, count, j)] = make_float4(sum[4 * j], sum[4 * j + 1], sum[4 * j + 2], sum[4 * j + 3]);
    ++count;
  }

  // Adds up the sums of all parts for the columns that this block owns and, if `next`, for the next eight columns.
  // Returns whether any part has an unsplittable value. A thread has loads of several parts in flight together.
  __device__ bool add_up(float (&sum)[kColumns / 2], bool next, bool needs_fallback) {
    if (threadIdx.x == 0) marks[part] = count | (needs_fallback ? 1u << 16 : 0);
    cluster_sync();
    constexpr int kAhead = 16;  // loads in flight
    const int lane = threadIdx.x % 32;
    const uint32_t mark = lane < parts ? __ldcg(marks + lane) : 0;
#pragma unroll
    for (int j = 0; j < kEights; ++j) {
      if (!owns(j) && !(next && j > 0 && owns(j - 1))) continue;
      float4 total = {};
      int p = 0, i = 0;  // (part, index) of the next sum
      while (p < parts) {
        float4 v[kAhead];
        bool real[kAhead];
#pragma unroll
        for (int n = 0; n < kAhead; ++n) {
          real[n] = i < static_cast<int>(__shfl_sync(0xffffffffu, mark, p) & 0xffff);  // false past the last part
          v[n] = __ldcg(all + at(min(p, parts - 1), i, j));
          if (++i == maximum) i = 0, ++p;
        }
#pragma unroll
        for (int n = 0; n < kAhead; ++n)
          if (real[n]) total.x += v[n].x, total.y += v[n].y, total.z += v[n].z, total.w += v[n].w;
      }
      sum[4 * j] = total.x, sum[4 * j + 1] = total.y, sum[4 * j + 2] = total.z, sum[4 * j + 3] = total.w;
    }
    return __any_sync(0xffffffffu, mark >> 16);
  }
};

}  // namespace fops::hopper
