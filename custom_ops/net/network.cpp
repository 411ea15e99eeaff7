#include "net/network.h"

#include "base/log.h"
#include "base/status.h"

namespace fops {

fops_status Network::make(const std::vector<Layer>& layers, const std::vector<int64_t>& shape, fops_backend backend,
                          int device, const char* precision, std::unique_ptr<Network>* out) {
  auto network = std::make_unique<Network>();
  if (fops_status s = make_plan(layers, shape, &network->plan_)) return s;
  const char* wanted = precision && *precision ? precision : "float32";
  if (fops_status s = backend == FOPS_GPU ? make_gpu_executor(network->plan_, device, wanted, &network->executor_)
                                          : make_cpu_executor(network->plan_, wanted, &network->executor_))
    return s;
  *out = std::move(network);
  return FOPS_OK;
}

fops_status Network::set_weights(const std::vector<Weight>& weights) {
  for (const Stage& stage : plan_.stages)
    for (const int index : {stage.weight, stage.bias})
      if (index >= 0 && !weights[index].values)
        return fail(FOPS_INVALID, "stage '%s' lacks its input '%s'", stage.name.c_str(), plan_.inputs[index].c_str());
  const std::lock_guard<std::mutex> lock(mutex_);
  const fops_status status = executor_->set_weights(weights);
  weights_set_ = status == FOPS_OK;
  return status;
}

fops_status Network::ready(int64_t n, const void* data, fops_dtype type, const void* out) const {
  if (n < 1) return fail(FOPS_INVALID, "a forward pass needs at least one item, not %lld", (long long)n);
  if (!data || !out) return fail(FOPS_INVALID, "data or output is a null pointer");
  if (type != FOPS_FLOAT32 && type != FOPS_UINT8) return fail(FOPS_INVALID, "data must be float32 or uint8");
  return weights_set_ ? FOPS_OK : fail(FOPS_INVALID, "the network has no weights yet");
}

fops_status Network::forward(int64_t n, const void* data, fops_dtype type, float* out, bool log) {
  const std::lock_guard<std::mutex> lock(mutex_);
  if (fops_status s = ready(n, data, type, out)) return s;
  std::vector<double> seconds(plan_.stages.size());
  double upload = 0, download = 0;
  if (fops_status s = executor_->forward(n, data, type, out, &seconds, &upload, &download)) return s;
  for (size_t i = 0; log && i < seconds.size(); ++i) {
    const Stage& stage = plan_.stages[i];
    const bool first = i == 0, last = i + 1 == seconds.size();
    fops_conv conv = {n, stage.in.size(), 1, 1, stage.out.size(), 1, FOPS_FLOAT32};
    if (stage.kind == Stage::Kind::convolution)
      conv = {n, stage.in.C, stage.in.H, stage.in.W, stage.out.C, stage.K, first ? type : FOPS_FLOAT32};
    log_op(stage.first_node, stage.last_node, "fused", conv, seconds[i], first ? upload : 0, last ? download : 0);
  }
  return FOPS_OK;
}

fops_status Network::predict(int64_t n, const void* data, fops_dtype type, int32_t* classes) {
  const std::lock_guard<std::mutex> lock(mutex_);
  if (fops_status s = ready(n, data, type, classes)) return s;
  return executor_->predict(n, data, type, classes);
}

fops_status Network::forward_device(int64_t n, const void* data, fops_dtype type, float* out, void* stream) {
  const std::lock_guard<std::mutex> lock(mutex_);
  if (fops_status s = ready(n, data, type, out)) return s;
  return executor_->forward_device(n, data, type, out, stream);
}

}  // namespace fops
