// What runs a plan: one class a backend.
#pragma once

#include <memory>
#include <vector>

#include "net/plan.h"

namespace fops {

// A weight or bias as the caller holds it, in host memory or, for CUDA, on the device. An executor keeps its own copy
// in the layout that its kernels want and lays it out again only when `version` differs from the one it has.
struct Weight {
  const float* values = nullptr;
  uint64_t version = 0;
};

class Executor {
 public:
  // Nothing is checked here that Network, the one caller, has checked: weights that are all there and were set first, n
  // of at least 1, data and out that are no null pointers, a known type.
  virtual ~Executor() = default;

  // Takes over what changed in the weights. `weights` is indexed as Plan::inputs; entries that no stage reads are null.
  virtual fops_status set_weights(const std::vector<Weight>& weights) = 0;

  // n items of `data` (n, C, H, W), float32 or uint8, to `out` (n, values of the last stage), float32, all in host
  // memory. Synchronous. `seconds` receives each stage's time, one entry a stage: the stage alone, without transfers;
  // `upload` and `download` (may be null) the transfers', 0 on the CPU. One caller at a time: Network sees to it.
  virtual fops_status forward(int64_t n, const void* data, fops_dtype type, float* out, std::vector<double>* seconds,
                              double* upload, double* download) = 0;

  // The same to `classes` (n): of each item the index of its largest value, the first of equal ones, or of NaN.
  virtual fops_status predict(int64_t n, const void* data, fops_dtype type, int32_t* classes) = 0;

  // The forward pass with data and out in the memory of the executor's device, queued on `stream` (a cudaStream_t) and not
  // waited for. FOPS_UNSUPPORTED on the CPU.
  virtual fops_status forward_device(int64_t n, const void* data, fops_dtype type, float* out, void* stream) = 0;
};

// `precision`: "float32" (float32 grade), or on the GPU "tf32" or "fp16" for who asks.
fops_status make_cpu_executor(const Plan& plan, const char* precision, std::unique_ptr<Executor>* out);
fops_status make_gpu_executor(const Plan& plan, int device, const char* precision, std::unique_ptr<Executor>* out);

}  // namespace fops
