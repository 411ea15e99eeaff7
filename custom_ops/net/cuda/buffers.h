// The memory that a route's steps write to, and the number of items that it holds at the same time.
#pragma once

#include <vector>

#include "gpu/memory.h"
#include "net/cuda/route.h"

namespace fops {

// A plan's steps for data of one type, with their memory. Each step owns its output buffer. So nothing is allocated for
// a batch size that occurred before, and the zeros after the rows of halves are written only once.
class Buffers {
 public:
  // Whether there already is memory for a batch of n items, or for the largest slice that such a batch can get.
  bool enough_for(int64_t n) const { return made_ && slice(n) <= capacity_; }

  // Sets the steps, which are made again after weights change. Releases memory whose layout does not fit the new steps.
  fops_status set_steps(std::vector<Step> steps);
  bool made() const { return made_; }
  void forget_steps() { made_ = false; }

  // The number of items per slice of a batch of n, once there is memory: as many as most_items allows, or fewer if
  // memory ran out.
  int64_t slice(int64_t n) const;
  // Allocates memory for slices of `wanted` items, or of as many items as fit; *slice receives the number. Leaves
  // `extra_bytes` per item free for the caller. Clears the buffers on `stream`, and waits for that.
  fops_status grow(int64_t wanted, int64_t extra_bytes, const std::vector<StageWeights>& weights, cudaStream_t stream,
                   int64_t* slice);

  const std::vector<Step>& steps() const { return steps_; }
  // Where a step writes, from item `first` on: the step's buffer or, for the last step, `out`.
  Tensor output(size_t step, float* out, int64_t first) const;
  void* scratch() const { return scratch_.as(); }
  void* workspace() const { return workspace_.as(); }
  // A dense step's outputs in doubt; there are none before the first pass and after every pass.
  Doubts doubts(const Step& step) const {
    return {doubts_.as<unsigned>() + step.doubt_at * capacity_, static_cast<int>(step.doubt_words)};
  }
  // Memory for recomputing items: a flag per item, and two tensors for each of plain_blocks().
  unsigned* again() const { return again_.as<unsigned>(); }
  float* plain() const { return plain_.as<float>(); }
  unsigned plain_blocks() const { return plain_blocks_; }
  int64_t largest() const;  // values of the largest input or output of a step

 private:
  fops_status reserve(int64_t n, const std::vector<StageWeights>& weights, cudaStream_t stream);
  fops_status reserve_doubts(int64_t n, int64_t words, cudaStream_t stream);
  fops_status release() noexcept;

  bool made_ = false;
  std::vector<Step> steps_;
  std::vector<DeviceMemory> outputs_;  // of each step except the last, which writes to the caller's memory
  DeviceMemory scratch_, workspace_, doubts_, again_, plain_;
  unsigned plain_blocks_ = 0;
  int64_t capacity_ = 0;  // number of items for which there is memory
  bool limited_ = false;  // memory ran out: larger batches run in slices of capacity_ items
};

}  // namespace fops
