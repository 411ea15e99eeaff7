// Runs a route's steps: launches the kernels of each step with the step's buffers.
#pragma once

#include <vector>

#include "gpu/memory.h"
#include "net/cuda/buffers.h"
#include "net/cuda/weights.h"

namespace fops {

class Steps {
 public:
  // `products`: the number of half-precision matrix products in a large dense layer, 3 for float32 accuracy (dense.h).
  Steps(const Plan& plan, const DeviceWeights& weights, int products)
      : plan_(plan), weights_(weights), products_(products) {}

  int64_t in_bytes(fops_dtype type) const { return plan_.in().size() * (type == FOPS_UINT8 ? 1 : 4); }
  int64_t out_bytes() const { return plan_.out().size() * 4; }

  Tensor input(const void* data, fops_dtype type, int64_t first) const;
  // Queues the steps from number `from` on, for n items, and then the recomputation of items in doubt. `data` is the
  // input of step 0, and `out` receives the last step's output. If `marks` is not null, element i is recorded before
  // step i, and the next element after the last step.
  fops_status run(const Buffers& buffers, size_t from, int64_t n, const Tensor& data, float* out,
                  std::vector<Event>* marks, cudaStream_t stream) const;
  fops_status run_step(const Buffers& buffers, const Step& step, int64_t n, const Tensor& x, const Tensor& y,
                       cudaStream_t stream) const;

 private:
  fops_status recompute(const Buffers& buffers, int64_t n, const Tensor& data, float* out, cudaStream_t stream) const;

  const Plan& plan_;
  const DeviceWeights& weights_;
  const int products_;
};

}  // namespace fops
