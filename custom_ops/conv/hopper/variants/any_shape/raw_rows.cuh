// For any_shape.cu: TMA loads rows of pixels (a row is one channel of a task's pixels) into shared memory, from where
// threads split them.
//
//   global memory   plane of a channel     | up to 3 | the task's pixels | ..     Copies begin on 16-byte boundaries, so up
//                                          |         |                   |        to 3 pixels precede the task's. In a row
//   shared memory   row, one of a slot's 8 | up to 3 | the task's pixels | zeros  a task's images are contiguous.
//
// In staging.cuh, which is slower, threads load pixels from global memory themselves. It is used for strips, for planes
// whose size is not a multiple of 16 bytes, and in other cases listed at raw_pieces in choose.cpp.
#pragma once

#include "conv/hopper/pipeline.cuh"
#include "conv/hopper/variants/any_shape/launch.h"
#include "conv/hopper/variants/any_shape/staging.cuh"

namespace fops::hopper {

struct RowSpan {
  const float* from;  // address for the task's first slot, up to three floats before the task's first pixel
  int first, floats;  // number of floats of the row in the task's first image; in all images
  __device__ RowSpan(const Plan& plan, const Dims& d, const float* x, const Span& span, int lane) {
    const int pixels = d.H * d.W, begin = span.first & ~3;  // copies must begin on 16-byte boundaries
    const long long there = (plan.by_image ? 1 : d.B - span.image) * pixels - begin;
    from = x + ((span.image * d.C + lane) * pixels + begin);
    floats = static_cast<int>(min(static_cast<long long>(plan.raw_row), there)), first = min(floats, pixels - begin);
  }
};

// An iterator over the groups of steps whose weights are loaded together, of all of a block's tasks. It is used by a
// warp that loads rows of pixels in between.
struct Groups {
  uint32_t task;        // the current group's task
  int chunk, left;      // the group's chunk; the number of the chunk's steps from the group on
  const uint8_t* from;  // the group's weights
  __device__ Groups(const Plan& plan, const Packed& packed, uint32_t task, int step_bytes) : task(task) {
    begin(plan, packed, step_bytes);
  }
  __device__ bool last(const Plan& plan) const { return chunk == plan.chunk_count - 1; }
  __device__ int steps(const Plan& plan) const { return last(plan) ? plan.last_steps : plan.first_steps; }
  __device__ int bytes(const Plan& plan, int step_bytes) const {
    return min(left, last(plan) ? plan.last_group : plan.first_group) * step_bytes;
  }
  __device__ void begin(const Plan& plan, const Packed& packed, int step_bytes) {
    chunk = 0, left = steps(plan), from = packed.tiles + task % plan.blocks * plan.steps * step_bytes;
  }
  __device__ void next(const Plan& plan, const Packed& packed, uint32_t stride, int step_bytes) {
    from += bytes(plan, step_bytes);
    if ((left -= last(plan) ? plan.last_group : plan.first_group) > 0) return;
    if (++chunk < plan.chunk_count)
      left = steps(plan);
    else if ((task += stride) < plan.tasks)
      begin(plan, packed, step_bytes);
  }
};

// A circular buffer of pieces in shared memory. A piece is the eight rows of a slot. Pieces are numbered through all of
// a block's tasks.
struct RawRows {
  float* rows;
  uint64_t *full, *empty;  // mbarriers per piece; each producer warp arrives once at `empty`
  uint32_t mask;           // number of pieces in shared memory - 1
  int per_row;             // floats per row
  uint32_t log;            // log2 of the number of pieces: 1 or 2

  __device__ RawRows(const Plan& plan, float* rows, uint64_t* full, uint64_t* empty)
      : rows(rows), full(full), empty(empty), mask(plan.pieces - 1), per_row(plan.raw_row), log(plan.pieces / 2) {}
  __device__ float* piece(uint32_t number) const { return rows + (number & mask) * 8 * per_row; }
  __device__ uint32_t parity(uint32_t number) const { return number >> log & 1; }
  __device__ void wait(uint32_t number) const { barrier_wait(&full[number & mask], parity(number)); }

  __device__ void init_barriers(int pieces) const {
    for (int i = 0; i < pieces; ++i) barrier_init(&full[i], 1), barrier_init(&empty[i], kProducerThreads / 32);
  }
  // Sets all rows to zero; all threads of the block call this. Floats past the end of a row's pixels are split too, and
  // must not be unsplittable.
  __device__ void clear(const Plan& plan) const {
    for (int i = threadIdx.x; i < plan.pieces * 2 * per_row; i += blockDim.x) reinterpret_cast<float4*>(rows)[i] = {};
    bulk_fence();
  }
  __device__ bool room(uint32_t number) const { return warp_barrier_done(&empty[number & mask], parity(number) ^ 1); }
  // Starts the copies of a piece, slot `slot` of the task; a warp calls this.
  __device__ void load(uint32_t number, const Dims& d, const RowSpan& row, int slot, int lane) const {
    uint64_t* barrier = &full[number & mask];
    if (lane == 0) barrier_expect(barrier, 8 * 4 * row.floats);
    __syncwarp();
    if (lane < 8) {
      const int pixels = d.H * d.W;
      const float* from = row.from + 8LL * slot * pixels;
      float* to = piece(number) + lane * per_row;
      bulk_load(to, from, 4 * row.first, barrier);
      from += row.first - pixels;  // the beginning of the first image's plane
      for (int done = row.first; done < row.floats; done += pixels)
        bulk_load(to + done, from += 1LL * d.C * pixels, 4 * min(row.floats - done, pixels), barrier);
    }
    __syncwarp();
  }
};

// Splits the `slots` slots of a chunk from their rows into `buffer`; the first slot is piece `number`. The seven warps
// take turns at lots of kLot entries, through all slots and chunks. This warp's next lot is lot `at` of slot `slot`,
// counted from the chunk's first slot; both are advanced. If the slot is past the chunk, the warp has nothing to split
// in this chunk.
template <bool kByImage>
__device__ Seen stage_raw(const Plan& plan, const Dims& d, const RawRows& raw, uint32_t number, const Span& span,
                          int slots, const ImageScale* images, uint4* buffer, int& slot, int& at) {
  const int lane = threadIdx.x % 32, lots = plan.staged / kLot, low_plane = plan.chunks.per_chunk * plan.staged;
  const ImageScale own = of_image(images, 0);
  const int images_behind = static_cast<int>(min(d.B - 1 - span.image, static_cast<long long>(plan.staged)));
  Seen seen;
  uint32_t smallest = ~0u;
  int done = 0;  // number of slots that this warp has released, because it will not read them again
  const auto let_go = [&](int until) {
    for (; done < until; ++done) {
      raw.wait(number +
               done);  // needed for a piece in which this warp has no lot: it must not arrive a round too early
      __syncwarp();
      if (lane == 0) barrier_arrive(&raw.empty[(number + done) & raw.mask]);
    }
  };
  while (slot < slots) {
    let_go(slot);
    raw.wait(number + slot);
    do {
      const float* from = raw.piece(number + slot) + (span.first & 3) + kLot * at + lane;
      float v[2][8];
#pragma unroll
      for (int e = 0; e < 8; ++e, from += raw.per_row) v[0][e] = from[0], v[1][e] = from[32];
      uint32_t hi[2][4], lo[2][4], largest = 0;
#pragma unroll
      for (int n = 0; n < 2; ++n) {
        ImageScale by = own;
        if constexpr (!kByImage)
          by = of_image(images, min(divide(span.first + kLot * at + lane + 32 * n, plan.inverse_image), images_behind));
        uint32_t minimum = ~0u;
#pragma unroll
        for (int e = 0; e < 4; ++e) {
          const SplitPair parts = split_pair(v[n][2 * e] * by.scale, v[n][2 * e + 1] * by.scale);
          hi[n][e] = parts.hi, lo[n][e] = parts.lo;
          largest = __vmaxu2(largest, parts.hi & 0x7fff7fffu);
          minimum = min(minimum, min(nonzero_bits(v[n][2 * e]), nonzero_bits(v[n][2 * e + 1])));
        }
        seen.low |= lo[n][0] | lo[n][1] | lo[n][2] | lo[n][3];
        if (kByImage)
          smallest = min(smallest, minimum);
        else
          seen.needs_fallback |= minimum < nonzero_bits(by.minimum);
      }
      if (__any_sync(0xffffffffu, not_finite(largest))) {
        seen.needs_fallback |= not_finite(largest);
#pragma unroll
        for (int n = 0; n < 2; ++n) drop_not_finite(hi[n], lo[n]);
      }
      uint4* entry = buffer + slot * plan.staged + kLot * at + lane;
#pragma unroll
      for (int n = 0; n < 2; ++n) {
        entry[32 * n] = make_uint4(hi[n][0], hi[n][1], hi[n][2], hi[n][3]);
        entry[32 * n + low_plane] = make_uint4(lo[n][0], lo[n][1], lo[n][2], lo[n][3]);
      }
    } while ((at += kProducerThreads / 32) < lots);
    do at -= lots, ++slot;
    while (at >= lots);
  }
  let_go(slots);
  slot -= slots;
  if (kByImage) seen.needs_fallback |= smallest < nonzero_bits(own.minimum);
  return seen;
}

}  // namespace fops::hopper
