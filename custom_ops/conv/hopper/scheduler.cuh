// Scheduling for persistent blocks: a block gets the number of its next task (a tile of the output) from a counter in
// global memory.
//
// SMs differ by a tenth in the speed of their writes, so with equal numbers of tasks some SMs would be idle at the end.
// A block reads the counter three tasks ahead, so that it can load a task's pixels while it computes the previous task.
// The results of a task do not depend on the block.
#pragma once

#include <algorithm>
#include <climits>

#include "conv/cuda/dims.h"
#include "gpu/launch.h"
#include "gpu/workspace.h"

namespace fops {

// The counters of a launch, one for each y of the grid. There are none (a null pointer) if blocks have only a few
// tasks, because setting counters to zero takes a launch.
class TileCounter {
 public:
  explicit TileCounter(cudaStream_t stream) : stream_(stream), memory_(stream) {}
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

// Sets *slices to the number of blocks that share a task, the grid's z. It is 1 unless there are so few tasks that SMs
// would be idle. A task consists of `turns` turns, which are divided evenly among these blocks. Such blocks have only
// one task, and need no counters.
inline fops_status slices_for(long long tasks, long long turns, unsigned* slices) {
  int sms = 0;
  FOPS_TRY(count_sms(&sms));
  const long long maximum = std::max(1LL, std::min(turns, sms / tasks));
  *slices = static_cast<unsigned>(ceil_div(turns, ceil_div(turns, maximum)));
  return FOPS_OK;
}

// For PersistentTilesOf: the number of a block's first task, the distance to its second one, and whether this thread
// reads the counter.
struct ByBlock {
  static __device__ unsigned first() { return blockIdx.x; }
  static __device__ unsigned stride() { return gridDim.x; }
  static __device__ bool asks() { return threadIdx.x == 0; }
};

// The tasks of a block, or of a part of a block: the current one (now), the next one, and the one after that (claimed;
// only in the thread that reads the counter). Numbers of tasks are below 2^31. Every thread has a copy; `slot` is one
// word of shared memory, through which that thread passes its number to the others.
template <typename By = ByBlock>
struct PersistentTilesOf {
  unsigned now, next, claimed;
  __device__ PersistentTilesOf() : now(By::first()), next(now + By::stride()), claimed(next + By::stride()) {}
  // Called once per task, with a barrier before it and another one between it and `advance`. The value that the counter
  // returns is first needed in the next call, so that the thread need not wait for it now.
  __device__ void claim(unsigned* slot, unsigned* counters) {
    if (!By::asks()) return;
    *slot = claimed;
    claimed = counters ? 3 * By::stride() + atomicAdd(counters + blockIdx.y, 1u) : claimed + By::stride();
  }
  __device__ void advance(const unsigned* slot) { now = next, next = *slot; }
};
using PersistentTiles = PersistentTilesOf<>;

// Calls f(sizes, first image) for pieces of a batch, so small that a piece has fewer than 2^30 tasks at `each` tasks per
// image. There is nearly always one piece.
template <typename F>
fops_status in_pieces(const fops_conv& c, long long each, F f) {
  const long long maximum = std::max(1LL, INT_MAX / 2 / each);
  Dims piece = dims(c);
  for (long long first = 0; first < c.B; first += maximum) {
    piece.B = std::min<long long>(maximum, c.B - first);
    FOPS_TRY(f(piece, first));
  }
  return FOPS_OK;
}

}  // namespace fops
