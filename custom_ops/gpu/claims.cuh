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

// A block's tasks, numbered below 2^31. All threads have one; `slot` is a word of shared memory.
struct Turns {
  unsigned now, next, claimed;
  __device__ Turns() : now(blockIdx.x), next(now + gridDim.x), claimed(next + gridDim.x) {}
  // Once a task, between a barrier and the one that `advance` comes behind. The counter's answer is waited for in the
  // next task.
  __device__ void claim(unsigned* slot, unsigned* counters) {
    if (threadIdx.x != 0) return;
    *slot = claimed;
    claimed = counters ? 3 * gridDim.x + atomicAdd(counters + blockIdx.y, 1u) : claimed + gridDim.x;
  }
  __device__ void advance(const unsigned* slot) { now = next, next = *slot; }
};

// A batch in pieces of so few images that their tasks, `each` an image, can be numbered. `f` takes the first image and
// how many; one piece but for 2^31 tasks.
template <typename F>
fops_status in_pieces(long long images, long long each, F f) {
  const long long most = std::max(1LL, INT_MAX / 2 / each);
  for (long long first = 0; first < images; first += most) FOPS_TRY(f(first, std::min(most, images - first)));
  return FOPS_OK;
}

}  // namespace fops
