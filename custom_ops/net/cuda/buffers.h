// The device memory that a route's steps write to, and the number of items for which there is memory.
#pragma once

#include <vector>

#include "gpu/memory.h"
#include "net/cuda/route.h"

namespace fops {

// A plan's steps for data of one type, with their memory. Each step except the last has its own output buffer, which is
// kept between passes. So a batch no larger than an earlier one allocates nothing, and the zeros that pad each row of
// half-precision values are written once per allocation.
class Buffers {
 public:
  bool enough_for(int64_t n) const { return made_ && slice(n) <= capacity_; }

  // Sets the steps, which are made again after weights change. Releases all memory if its layout does not fit the new
  // steps.
  fops_status set_steps(std::vector<Step> steps);
  bool made() const { return made_; }
  void forget_steps() { made_ = false; }

  // Returns the number of items per slice of a batch of n: at most most_items() and, if memory ran out in grow(), at
  // most the number of items for which there is memory.
  int64_t slice(int64_t n) const;
  // Allocates memory for slices of `wanted` items, or of as many items as fit; *slice receives the number of items.
  // Leaves `extra_bytes` per item free for the caller. Sets the buffers to zero on `stream`, and waits for `stream`.
  fops_status grow(int64_t wanted, int64_t extra_bytes, const std::vector<StageWeights>& weights, cudaStream_t stream,
                   int64_t* slice);

  const std::vector<Step>& steps() const { return steps_; }
  // Returns the tensor that a step writes to, from item `first` on: in the step's buffer or, for the last step, in
  // `out`.
  Tensor output(size_t step, float* out, int64_t first) const;
  void* scratch() const { return scratch_.as(); }
  void* workspace() const { return workspace_.as(); }
  // The flags of a dense step's outputs in doubt. All flags are clear before the first pass and after every pass.
  Doubts doubts(const Step& step) const {
    return {doubts_.as<unsigned>() + step.doubt_at * capacity_, static_cast<int>(step.doubt_words)};
  }
  // Memory for recomputing items: again() is a flag per item; plain() holds two tensors of largest() values for each of
  // plain_blocks() blocks.
  unsigned* again() const { return again_.as<unsigned>(); }
  float* plain() const { return plain_.as<float>(); }
  unsigned plain_blocks() const { return plain_blocks_; }
  int64_t largest() const;  // number of values per item in the largest input or output of a step

 private:
  fops_status reserve(int64_t n, const std::vector<StageWeights>& weights, cudaStream_t stream);
  fops_status reserve_doubts(int64_t n, int64_t words, cudaStream_t stream);
  fops_status release() noexcept;

  bool made_ = false;
  std::vector<Step> steps_;
  std::vector<DeviceMemory> outputs_;  // one per step except the last, which writes to the caller's memory
  DeviceMemory scratch_, workspace_, doubts_, again_, plain_;
  unsigned plain_blocks_ = 0;
  int64_t capacity_ = 0;  // number of items for which there is memory
  bool limited_ = false;  // whether memory ran out; then larger batches run in slices of at most capacity_ items
};

}  // namespace fops
