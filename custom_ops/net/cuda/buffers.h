// The memory that a route's steps write to, and for how many items at once there is room.
#pragma once

#include <vector>

#include "gpu/memory.h"
#include "net/cuda/route.h"

namespace fops {

// A plan's steps for data of one type, with their memory. Each step owns its output buffer, so nothing is allocated
// once a size has been seen, and the zeros behind the rows of halves, written once, stay.
class Buffers {
 public:
  // Whether there is memory for a batch of n already, as far as it will ever go.
  bool enough_for(int64_t n) const { return made_ && slice(n) <= capacity_; }

  // The steps, made anew behind a change of weights. Memory whose layout does not fit them is released.
  fops_status set_steps(std::vector<Step> steps);
  bool made() const { return made_; }
  void forget_steps() { made_ = false; }

  // Items a slice of a batch of n has, once there is memory: what most_items allows, or less where memory ended.
  int64_t slice(int64_t n) const;
  // Memory for slices of `wanted` items, or of as many as fit; *slice receives how many. `extra_bytes` an item are left
  // free for the caller. Buffers are cleared on `stream`, and that is waited for.
  fops_status grow(int64_t wanted, int64_t extra_bytes, const std::vector<StageWeights>& weights, cudaStream_t stream,
                   int64_t* slice);

  const std::vector<Step>& steps() const { return steps_; }
  // Where a step writes, from item `first` on: its buffer, or the last one `out`.
  Tensor output(size_t step, float* out, int64_t first) const;
  void* scratch() const { return scratch_.as(); }
  void* workspace() const { return workspace_.as(); }
  // A dense step's outputs in doubt: none at first, and behind every pass.
  Doubts doubts(const Step& step) const {
    return {doubts_.as<unsigned>() + step.doubt_at * capacity_, static_cast<int>(step.doubt_words)};
  }
  // What computing items again needs: a flag an item, and two tensors for each of so many blocks.
  unsigned* again() const { return again_.as<unsigned>(); }
  float* plain() const { return plain_.as<float>(); }
  unsigned plain_blocks() const { return plain_blocks_; }
  int64_t largest() const;  // values of a step's input or output

 private:
  fops_status reserve(int64_t n, const std::vector<StageWeights>& weights, cudaStream_t stream);
  fops_status reserve_doubts(int64_t n, int64_t words, cudaStream_t stream);
  fops_status release() noexcept;

  bool made_ = false;
  std::vector<Step> steps_;
  std::vector<DeviceMemory> outputs_;  // of each step but the last, which writes to the caller's
  DeviceMemory scratch_, workspace_, doubts_, again_, plain_;
  unsigned plain_blocks_ = 0;
  int64_t capacity_ = 0;  // items
  bool limited_ = false;  // memory held no more: larger batches go in slices of this
};

}  // namespace fops
