// Any shape on Hopper, small batches: the blocks of a cluster share the depth of a task's sums.
//
//   block 0   chain chain .. small | chain chain .. small |            each segment's sums go to global memory
//   block 1                                               chain chain .. small | ..
//             --------------------- cluster barrier ---------------------
//   block 0   columns  0 to 15: adds up all blocks' sums, in order     so an output is the same to the last bit as
//   block 1   columns 16 to 31                                         when one block has all of the depth
#pragma once

#include "conv/cuda/12_tensor_core/any_shape/plan.h"
#include "gpu/isa/cluster.cuh"

namespace fops {
namespace any_shape {

constexpr int kMostParts = 8;  // blocks of a cluster

template <int kColumns>
struct KeptSums {
  static constexpr int kEights = kColumns / 8;  // of columns; of each a thread has four sums
  const float4* all;      // the task's
  uint32_t* marks;
  int part, parts, most;  // most: sums that a part has room for
  int count = 0;

  __device__ KeptSums(const Packed& packed, const Plan& plan, uint32_t task, int part)
      : all(packed.kept + 1LL * task * plan.parts * plan.kept * kEights * kMultipliers),
        marks(packed.marks + task * plan.parts), part(part), parts(plan.parts), most(plan.kept) {}

  __device__ int at(int of_part, int sum, int eight) const {
    return ((of_part * most + sum) * kEights + eight) * kMultipliers + threadIdx.x;
  }
  __device__ bool owns(int eight) const { return eight * parts / kEights == part; }

  __device__ void keep(const float (&sum)[kColumns / 2]) {
    float4* to = const_cast<float4*>(all);
#pragma unroll
    for (int j = 0; j < kEights; ++j)
      to[at(part, count, j)] = make_float4(sum[4 * j], sum[4 * j + 1], sum[4 * j + 2], sum[4 * j + 3]);
    ++count;
  }

  // Of the columns that this block owns, and with `next` of eight behind them: `sum` is that of all parts. Returns
  // whether a value of any part has no good split. Sums of all parts are on their way together: one part after the
  // other, eight of them took 6 us.
  __device__ bool add_up(float (&sum)[kColumns / 2], bool next, bool beyond) {
    if (threadIdx.x == 0) marks[part] = count | (beyond ? 1u << 16 : 0);
    cluster_sync();
    constexpr int kAhead = 16;  // loads
    const int lane = threadIdx.x % 32;
    const uint32_t mark = lane < parts ? __ldcg(marks + lane) : 0;
#pragma unroll
    for (int j = 0; j < kEights; ++j) {
      if (!owns(j) && !(next && j > 0 && owns(j - 1))) continue;
      float4 total = {};
      int p = 0, i = 0;  // the next sum's part, and which of its sums
      while (p < parts) {
        float4 v[kAhead];
        bool real[kAhead];
#pragma unroll
        for (int n = 0; n < kAhead; ++n) {
          real[n] = i < static_cast<int>(__shfl_sync(0xffffffffu, mark, p) & 0xffff);  // of parts behind the last: 0
          v[n] = __ldcg(all + at(min(p, parts - 1), i, j));
          if (++i == most) i = 0, ++p;
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

}  // namespace any_shape
}  // namespace fops
