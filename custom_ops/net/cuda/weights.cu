#include "net/cuda/weights.h"

#include <algorithm>
#include <cmath>

#include "net/cuda/route.h"

namespace fops {
namespace {

// If a weight is in device memory (MXNet's GPU context), copies it to `host` and points weight->values there, because
// the code that packs weights runs on the host.
fops_status fetch(Weight* weight, size_t values, std::vector<float>* host) {
  cudaPointerAttributes attributes;
  if (cudaPointerGetAttributes(&attributes, weight->values) != cudaSuccess) {
    cudaGetLastError();
    return FOPS_OK;  // the weight is in ordinary host memory
  }
  if (attributes.type != cudaMemoryTypeDevice) return FOPS_OK;
  host->resize(values);
  FOPS_CUDA(cudaMemcpy(host->data(), weight->values, values * sizeof(float), cudaMemcpyDeviceToHost));
  weight->values = host->data();
  return FOPS_OK;
}

int64_t units_of(const Stage& stage) { return stage.kind == Stage::Kind::convolution ? stage.out.C : stage.out.size(); }
int64_t weights_a_unit(const Stage& stage) {
  return stage.kind == Stage::Kind::convolution ? stage.in.C * stage.K * stage.K : stage.in.size();
}

// Sets w->sum and w->bias_largest, from which a bound on the stage's outputs follows. Not needed before a tanh, after
// which the bound is 1.
void measure(const Stage& stage, const std::vector<Weight>& given, StageWeights* w) {
  if (stage.activation == Activation::tanh) return;
  const int64_t units = units_of(stage), a_unit = weights_a_unit(stage);
  const float* values = given[stage.weight].values;
  for (int64_t u = 0; u < units; ++u) {
    double sum = 0.0;
    for (int64_t k = 0; k < a_unit; ++k) sum += std::fabs(static_cast<double>(values[u * a_unit + k]));
    w->sum = sum <= w->sum ? w->sum : sum;  // a NaN is stored too, because the comparison is false for it
  }
  if (stage.bias < 0) return;
  for (int64_t u = 0; u < units; ++u) {
    const double size = std::fabs(static_cast<double>(given[stage.bias].values[u]));
    w->bias_largest = size <= w->bias_largest ? w->bias_largest : size;
  }
}

}  // namespace

void DeviceWeights::open(const Plan& plan, bool matrix_units) {
  plan_ = &plan;
  matrix_units_ = matrix_units;
  held_.resize(plan.inputs.size());
  memory_.resize(plan.inputs.size());
  packed_.resize(plan.stages.size());
  stages_.resize(plan.stages.size());
}

std::vector<bool> DeviceWeights::changed(const std::vector<Weight>& given) const {
  std::vector<bool> changed(given.size(), false);
  for (const Stage& stage : plan_->stages)
    for (int input : {stage.weight, stage.bias})
      if (input >= 0 && !(held_[input].there && held_[input].version == given[input].version)) changed[input] = true;
  return changed;
}

bool DeviceWeights::differs(const std::vector<Weight>& given) const {
  const std::vector<bool> all = changed(given);
  return std::find(all.begin(), all.end(), true) != all.end();
}

fops_status DeviceWeights::take(std::vector<Weight> given, cudaStream_t stream) {
  const std::vector<bool> changed = this->changed(given);
  std::vector<std::vector<float>> fetched(given.size());
  for (size_t input = 0; input < given.size(); ++input) {
    if (!changed[input]) continue;
    held_[input].there = false;  // set to true when all weights are packed
    size_t values = 1;
    for (int64_t side : plan_->shapes[input]) values *= static_cast<size_t>(side);
    FOPS_TRY(fetch(&given[input], values, &fetched[input]));
    FOPS_TRY(memory_[input].reserve(values * sizeof(float)));
    FOPS_CUDA(cudaMemcpyAsync(memory_[input].as(), given[input].values, values * sizeof(float), cudaMemcpyHostToDevice,
                              stream));
  }
  for (size_t i = 0; i < plan_->stages.size(); ++i) {
    const Stage& stage = plan_->stages[i];
    if ((stage.weight >= 0 && changed[stage.weight]) || (stage.bias >= 0 && changed[stage.bias]))
      FOPS_TRY(lay_out(i, given, stream));
  }
  FOPS_CUDA(cudaStreamSynchronize(stream));
  for (size_t input = 0; input < given.size(); ++input)
    if (changed[input]) held_[input] = {true, given[input].version};
  return FOPS_OK;
}

fops_status DeviceWeights::lay_out(size_t index, const std::vector<Weight>& given, cudaStream_t stream) {
  const Stage& stage = plan_->stages[index];
  StageWeights& w = stages_[index];
  w = StageWeights();
  w.w = memory_[stage.weight].as<float>();
  if (stage.bias >= 0) w.bias = memory_[stage.bias].as<float>();
  measure(stage, given, &w);

  const int64_t units = units_of(stage), a_unit = weights_a_unit(stage);
  const auto upload = [&](PackedWeights* of) -> fops_status {
    const size_t bytes = of->packed.size() * sizeof(uint32_t);
    FOPS_TRY(packed_[index].reserve(bytes));
    FOPS_CUDA(cudaMemcpyAsync(packed_[index].as(), of->packed.data(), bytes, cudaMemcpyHostToDevice, stream));
    of->device = packed_[index].as<uint32_t>();
    return FOPS_OK;
  };
  if (stage.kind == Stage::Kind::convolution && takes_conv_pixels(stage)) {
    w.packed_pixels = pack_conv_pixels(stage, given[stage.weight].values, &w.pixels);
    if (w.packed_pixels) FOPS_TRY(upload(&w.pixels));
  } else if (matrix_units_ && (takes_first_layer(stage) || takes_later_layer(stage))) {
    w.packed_conv_pool = pack_conv_pool(stage, given[stage.weight].values, &w.conv_pool);
    if (w.packed_conv_pool) FOPS_TRY(upload(&w.conv_pool));
  } else if (stage.kind == Stage::Kind::dense && units > kFewUnits && matrix_units_) {
    FOPS_TRY(packed_[index].reserve(dense_weight_bytes(units, a_unit)));
    int64_t filters = 0;
    if (index >= 2) {  // stage 0 does not count: if it reads bytes, it does not write halves
      const Stage& before = plan_->stages[index - 1];
      if (halves_of(before) == HalvesOrder::side_by_side) filters = before.out.C;
    }
    FOPS_TRY(pack_dense(units, a_unit, filters, w.w, w.bias, packed_[index].as(), &w.dense, stream));
    w.packed_dense = true;
  }
  return FOPS_OK;
}

}  // namespace fops
