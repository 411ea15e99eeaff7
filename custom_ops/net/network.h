// A network: a plan and the executor that runs it. The C API and the MXNet adapter use this class. Its functions check their
// arguments.
#pragma once

#include <memory>
#include <mutex>
#include <vector>

#include "net/executor.h"
#include "net/plan.h"

namespace fops {

class Network {
 public:
  // Plans the layers (make_plan in plan.h) and sets *out to the network. NULL or "" as the precision means "float32".
  static fops_status make(const std::vector<Layer>& layers, const std::vector<int64_t>& shape, fops_backend backend,
                          int device, const char* precision, std::unique_ptr<Network>* out);

  const Plan& plan() const { return plan_; }

  // As the functions of Executor; with `log`, forward also logs every stage (base/log.h).
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
