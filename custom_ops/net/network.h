// A planned network with its executor, used by the C API and the MXNet adapter.
#pragma once

#include <memory>
#include <mutex>
#include <vector>

#include "net/executor.h"
#include "net/plan.h"

namespace fops {

class Network {
 public:
  static fops_status make(const std::vector<Layer>& layers, const std::vector<int64_t>& shape, fops_backend backend,
                          int device, const char* precision, std::unique_ptr<Network>* out);

  const Plan& plan() const { return plan_; }
  fops_status set_weights(const std::vector<Weight>& weights);
  fops_status forward(int64_t n, const void* data, fops_dtype type, float* out, bool log);
  fops_status predict(int64_t n, const void* data, fops_dtype type, int32_t* classes);
  fops_status forward_device(int64_t n, const void* data, fops_dtype type, float* out, void* stream);

 private:
  fops_status ready(int64_t n, const void* data, fops_dtype type, const void* out) const;

  Plan plan_;
  std::unique_ptr<Executor> executor_;
  std::mutex mutex_;  // an executor serves one caller at a time
  bool weights_set_ = false;
};

}  // namespace fops
