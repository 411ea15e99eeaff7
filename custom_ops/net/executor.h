// The interface of executors, which run a plan. Each backend has one class of executors.
#pragma once

#include <memory>
#include <vector>

#include "net/plan.h"

namespace fops {

// A weight or bias of the caller, in host memory or, for CUDA, in host or device memory. An executor copies it into the
// layout that its kernels need, and copies it again only when `version` has changed.
struct Weight {
  const float* values = nullptr;
  uint64_t version = 0;
};

// Class Network, the only caller, checks before a pass that all weights are set, that n is at least 1, that data and out are
// not null, and that the type is known. Executors do not check this again.
class Executor {
 public:
  virtual ~Executor() = default;

  // Copies the weights whose version has changed. `weights` has an entry for each of Plan::inputs; `values` may be null for
  // inputs that no stage reads.
  virtual fops_status set_weights(const std::vector<Weight>& weights) = 0;

  // Runs the network on the n items of `data` (n, C, H, W), float32 or uint8, and returns when the pass is complete.
  // `out` (n, values of the last stage) receives float32 values. Both are in host memory. Adds the time of each stage
  // without transfers to *seconds, and the times of the transfers, of which the CPU has none, to *upload and *download
  // unless they are null. Network ensures that there is one caller at a time.
  virtual fops_status forward(int64_t n, const void* data, fops_dtype type, float* out, std::vector<double>* seconds,
                              double* upload, double* download) = 0;

  // Runs the network like forward, but `classes` (n) receives the index of each item's largest value. Of equal values the
  // first counts, and NaN counts as the largest value.
  virtual fops_status predict(int64_t n, const void* data, fops_dtype type, int32_t* classes) = 0;

  // Queues the forward pass on `stream` (a cudaStream_t) without waiting for it. `data` and `out` are in the memory of the
  // executor's device. Returns FOPS_UNSUPPORTED on the CPU.
  virtual fops_status forward_device(int64_t n, const void* data, fops_dtype type, float* out, void* stream) = 0;
};

// Set *out to an executor for the plan. `precision` is "float32" (docs/precision.md), or on the GPU "tf32" or "fp16".
fops_status make_cpu_executor(const Plan& plan, const char* precision, std::unique_ptr<Executor>* out);
fops_status make_gpu_executor(const Plan& plan, int device, const char* precision, std::unique_ptr<Executor>* out);

}  // namespace fops
