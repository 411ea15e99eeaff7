// Interface for running a plan; one class per backend.
#pragma once

#include <memory>
#include <vector>

#include "net/plan.h"

namespace fops {

// A caller's weight or bias, in host memory or, for CUDA, on the device. An executor keeps its own copy in the layout
// that its kernels need, and lays it out again only when `version` changes.
struct Weight {
  const float* values = nullptr;
  uint64_t version = 0;
};

class Executor {
 public:
  // Network, the only caller, has already checked that all weights are set, that n is at least 1, that data and out are
  // not null, and that the type is known. Executors do not check these conditions again.
  virtual ~Executor() = default;

  // Updates weights that changed. `weights` is indexed as Plan::inputs; entries that no stage reads are null.
  virtual fops_status set_weights(const std::vector<Weight>& weights) = 0;

  // Runs n items of `data` (n, C, H, W), float32 or uint8, to `out` (n, values of the last stage), float32, all in host
  // memory. Returns when the pass is complete. `seconds` receives the time of each stage, without transfers; `upload`
  // and `download` (may be null) receive the times of the transfers, 0 on the CPU. Network ensures that there is one
  // caller at a time.
  virtual fops_status forward(int64_t n, const void* data, fops_dtype type, float* out, std::vector<double>* seconds,
                              double* upload, double* download) = 0;

  // Runs n items like forward; `classes` (n) receives the index of each item's largest value, which is the first of
  // equal values, or of NaN.
  virtual fops_status predict(int64_t n, const void* data, fops_dtype type, int32_t* classes) = 0;

  // The forward pass with data and out in the memory of the executor's device, queued on `stream` (a cudaStream_t)
  // without waiting. FOPS_UNSUPPORTED on the CPU.
  virtual fops_status forward_device(int64_t n, const void* data, fops_dtype type, float* out, void* stream) = 0;
};

// `precision`: "float32" (float32 grade), or on the GPU "tf32" or "fp16" on request.
fops_status make_cpu_executor(const Plan& plan, const char* precision, std::unique_ptr<Executor>* out);
fops_status make_gpu_executor(const Plan& plan, int device, const char* precision, std::unique_ptr<Executor>* out);

}  // namespace fops
