// Kernels whose blocks stay and walk over tasks: who does which.
//
// Multiprocessors differ by a tenth in how fast they write (H200: of equal shares some are done when a tenth of the
// time is left). So a block takes what is next, from a counter in global memory, three tasks ahead: it knows the next
// task's pixels while it works. A task's results are the same whichever block makes them.
#pragma once

#include <algorithm>
#include <climits>

#include "gpu/launch.h"
#include "gpu/workspace.h"

namespace fops {

// The counters of a launch, one for each of the grid's y. None where blocks have only a few tasks: to zero them takes
// two microseconds.
class Claims {
 public:
  explicit Claims(cudaStream_t stream) : stream_(stream), memory_(stream) {}
  fops_status reserve(long long tasks, unsigned blocks, unsigned parts = 1) {
    if (tasks < 8LL * blocks) return FOPS_OK;
    FOPS_TRY(memory_.reserve(sizeof(unsigned) * parts));
    FOPS_CUDA(cudaMemsetAsync(counters(), 0, sizeof(unsigned) * parts, stream_));
    return FOPS_OK;
  }
  unsigned* counters() const { return memory_.as<unsigned>(); }

 private:
  cudaStream_t stream_;
  Workspace memory_;
};

// How many blocks share each of a batch's tasks, the grid's z: one, but where tasks leave multiprocessors idle (an
// image of 1 to 4 filters, 7x7, 56x56, is one task for 132). A task's `turns` come one after the other: a block has as
// many as the others, the last ones at times fewer. There are then no counters, for no block has a second task.
inline fops_status slices_for(long long tasks, long long turns, unsigned* slices) {
  int multiprocessors = 0;
  FOPS_TRY(count_multiprocessors(&multiprocessors));
  const long long most = std::max(1LL, std::min(turns, multiprocessors / tasks));
  *slices = static_cast<unsigned>(ceil_div(turns, ceil_div(turns, most)));
  return FOPS_OK;
}

// Who takes tasks: a block. Its first task, how far the next one is, and the thread that asks the counter.
struct ByBlock {
  static __device__ unsigned first() { return blockIdx.x; }
  static __device__ unsigned stride() { return gridDim.x; }
  static __device__ bool asks() { return threadIdx.x == 0; }
};

// A block's tasks (or those of a part of it), numbered below 2^31. All threads have one; `slot` is a word of shared
// memory.
template <typename By = ByBlock>
struct TurnsOf {
  unsigned now, next, claimed;
  __device__ TurnsOf() : now(By::first()), next(now + By::stride()), claimed(next + By::stride()) {}
  // Once a task, between a barrier and the one that `advance` comes behind. The counter's answer is waited for in the
  // next task.
  __device__ void claim(unsigned* slot, unsigned* counters) {
    if (!By::asks()) return;
    *slot = claimed;
    claimed = counters ? 3 * By::stride() + atomicAdd(counters + blockIdx.y, 1u) : claimed + By::stride();
  }
  __device__ void advance(const unsigned* slot) { now = next, next = *slot; }
};
using Turns = TurnsOf<>;

// A batch in pieces of so few images that their tasks, `each` an image, can be numbered. `f` takes the first image and
// how many; one piece but for 2^31 tasks.
template <typename F>
fops_status in_pieces(long long images, long long each, F f) {
  const long long most = std::max(1LL, INT_MAX / 2 / each);
  for (long long first = 0; first < images; first += most) FOPS_TRY(f(first, std::min(most, images - first)));
  return FOPS_OK;
}

}  // namespace fops
