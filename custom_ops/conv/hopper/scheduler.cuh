// Persistent blocks: each takes the next tile from a counter in global memory.
//
// SMs differ by a tenth in how fast they write, so equal shares would leave some idle at the end. A block requests
// tiles three ahead, so that it can load the next tile's pixels while it works. A tile's results do not depend on the
// block.
#pragma once

#include <algorithm>
#include <climits>

#include "gpu/launch.h"
#include "gpu/workspace.h"

namespace fops {

// The counters of a launch, one for each y of the grid. There are none where blocks have only a few tasks, because
// zeroing counters takes a launch.
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

// The number of blocks that share each task, the grid's z: 1 unless tasks leave SMs idle. A task consists of `turns`,
// which are divided evenly. Blocks that share a task have only that task and need no counters.
inline fops_status slices_for(long long tasks, long long turns, unsigned* slices) {
  int sms = 0;
  FOPS_TRY(count_sms(&sms));
  const long long maximum = std::max(1LL, std::min(turns, sms / tasks));
  *slices = static_cast<unsigned>(ceil_div(turns, ceil_div(turns, maximum)));
  return FOPS_OK;
}

// How a block gets tasks: its first task, the stride to the next, and the thread that reads the counter.
struct ByBlock {
  static __device__ unsigned first() { return blockIdx.x; }
  static __device__ unsigned stride() { return gridDim.x; }
  static __device__ bool asks() { return threadIdx.x == 0; }
};

// The tasks of a block, or of a part of a block, numbered below 2^31. Every thread has a copy; `slot` is a word of
// shared memory.
template <typename By = ByBlock>
struct PersistentTilesOf {
  unsigned now, next, claimed;
  __device__ PersistentTilesOf() : now(By::first()), next(now + By::stride()), claimed(next + By::stride()) {}
  // Called once per task, after one barrier and before the one that precedes `advance`. The counter's value is needed
  // only in the next task.
  __device__ void claim(unsigned* slot, unsigned* counters) {
    if (!By::asks()) return;
    *slot = claimed;
    claimed = counters ? 3 * By::stride() + atomicAdd(counters + blockIdx.y, 1u) : claimed + By::stride();
  }
  __device__ void advance(const unsigned* slot) { now = next, next = *slot; }
};
using PersistentTiles = PersistentTilesOf<>;

// Calls f(first image, number of images) for pieces of a batch whose tasks, `each` per image, stay below 2^30. There is
// nearly always one piece.
template <typename F>
fops_status in_pieces(long long images, long long each, F f) {
  const long long maximum = std::max(1LL, INT_MAX / 2 / each);
  for (long long first = 0; first < images; first += maximum) FOPS_TRY(f(first, std::min(maximum, images - first)));
  return FOPS_OK;
}

}  // namespace fops
