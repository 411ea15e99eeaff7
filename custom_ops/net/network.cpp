#include "net.h"

#include "dispatch.h"
#include "status.h"

namespace fops {

fops_status Net::make(const std::vector<Node>& nodes, const std::vector<int64_t>& shape, fops_backend backend,
                      int device, const char* precision, std::unique_ptr<Net>* out) {
  auto net = std::make_unique<Net>();
  if (fops_status s = make_plan(nodes, shape, &net->plan_)) return s;
  const char* wanted = precision && *precision ? precision : "float32";
  if (fops_status s = backend == FOPS_CUDA ? make_cuda_executor(net->plan_, device, wanted, &net->executor_)
                                           : make_cpu_executor(net->plan_, wanted, &net->executor_))
    return s;
  *out = std::move(net);
  return FOPS_OK;
}

fops_status Net::set_weights(const std::vector<Weight>& weights) {
  for (const Stage& stage : plan_.stages)
    for (const int index : {stage.weight, stage.bias})
      if (index >= 0 && !weights[index].values)
        return fail(FOPS_INVALID, "stage '%s' lacks its input '%s'", stage.name.c_str(), plan_.inputs[index].c_str());
  const std::lock_guard<std::mutex> lock(mutex_);
  const fops_status status = executor_->set_weights(weights);
  weights_set_ = status == FOPS_OK;
  return status;
}

fops_status Net::ready(int64_t n, const void* data, fops_dtype type, const float* out) const {
  if (n < 1) return fail(FOPS_INVALID, "a forward pass needs at least one item, not %lld", (long long)n);
  if (!data || !out) return fail(FOPS_INVALID, "data or output is a null pointer");
  if (type != FOPS_FLOAT32 && type != FOPS_UINT8) return fail(FOPS_INVALID, "data must be float32 or uint8");
  return weights_set_ ? FOPS_OK : fail(FOPS_INVALID, "the network has no weights yet");
}

fops_status Net::forward(int64_t n, const void* data, fops_dtype type, float* out, bool log) {
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
    log_op(stage.name.c_str(), "fused", conv, seconds[i], first ? upload : 0, last ? download : 0);
  }
  return FOPS_OK;
}

fops_status Net::forward_device(int64_t n, const void* data, fops_dtype type, float* out, void* stream) {
  const std::lock_guard<std::mutex> lock(mutex_);
  if (fops_status s = ready(n, data, type, out)) return s;
  return executor_->forward_device(n, data, type, out, stream);
}

}  // namespace fops

using namespace fops;

namespace {

const char* name_of(Stage::Kind kind) {
  switch (kind) {
    case Stage::Kind::convolution: return "convolution";
    case Stage::Kind::dense: return "dense";
    case Stage::Kind::map: return "map";
    default: return "softmax";
  }
}

// The C structs as the planner's; false when an index leaves the list.
bool convert(const fops_node* nodes, int count, std::vector<Node>* out) {
  for (int i = 0; i < count; ++i) {
    const fops_node& from = nodes[i];
    Node node{from.op, from.name, {}, {from.inputs, from.inputs + from.input_count}};
    for (int a = 0; a < from.attribute_count; ++a) node.attributes[from.keys[a]] = from.values[a];
    for (const int input : node.inputs)
      if (input < 0 || input >= i) return false;
    out->push_back(std::move(node));
  }
  return true;
}

}  // namespace

extern "C" {

fops_status fops_net_create(const fops_node* nodes, int node_count, const int64_t* shape, int dimensions,
                            fops_backend backend, int device, const char* precision, fops_net** out) {
  try {
    if (!nodes || node_count < 1 || !shape || dimensions < 1 || !out)
      return fail(FOPS_INVALID, "a network needs nodes, the shape of an item and a place for the result");
    std::vector<Node> list;
    if (!convert(nodes, node_count, &list))
      return fail(FOPS_INVALID, "a node takes its input from one that does not come before it");
    auto handle = std::make_unique<fops_net>();
    if (fops_status s = Net::make(list, {shape, shape + dimensions}, backend, device, precision, &handle->net))
      return s;
    *out = handle.release();
    return FOPS_OK;
  } catch (...) {
    return caught();
  }
}

void fops_net_destroy(fops_net* net) { delete net; }

int fops_net_input_count(const fops_net* net) { return static_cast<int>(net->net->plan().inputs.size()); }

const char* fops_net_input_name(const fops_net* net, int index) {
  const auto& inputs = net->net->plan().inputs;
  return index >= 0 && index < static_cast<int>(inputs.size()) ? inputs[index].c_str() : "";
}

int64_t fops_net_input_size(const fops_net* net, int index) {
  const auto& shapes = net->net->plan().shapes;
  if (index < 0 || index >= static_cast<int>(shapes.size()) || shapes[index].empty()) return 0;
  int64_t count = 1;
  for (const int64_t size : shapes[index]) count *= size;
  return count;
}

int fops_net_data(const fops_net* net) { return net->net->plan().data; }

int fops_net_stage_count(const fops_net* net) { return static_cast<int>(net->net->plan().stages.size()); }

fops_status fops_net_stage(const fops_net* net, int index, fops_stage_info* out) {
  const auto& stages = net->net->plan().stages;
  if (!out || index < 0 || index >= static_cast<int>(stages.size()))
    return fail(FOPS_INVALID, "stage index %d is outside 0 to %d", index, static_cast<int>(stages.size()) - 1);
  const Stage& s = stages[index];
  *out = {s.name.c_str(), name_of(s.kind), {s.in.C, s.in.H, s.in.W}, {s.out.C, s.out.H, s.out.W}, s.K, s.tanh, s.pool};
  return FOPS_OK;
}

fops_status fops_net_set_weights(fops_net* net, const float* const* values, const uint64_t* versions) {
  try {
    if (!net || !values || !versions) return fail(FOPS_INVALID, "a network, weights and versions are needed");
    std::vector<Weight> weights;
    for (int i = 0; i < fops_net_input_count(net); ++i) weights.push_back({values[i], versions[i]});
    return net->net->set_weights(weights);
  } catch (...) {
    return caught();
  }
}

fops_status fops_net_forward(fops_net* net, int64_t n, const void* data, fops_dtype type, float* out, int log) {
  try {
    return net ? net->net->forward(n, data, type, out, log != 0) : fail(FOPS_INVALID, "no network was given");
  } catch (...) {
    return caught();
  }
}

fops_status fops_net_forward_cuda(fops_net* net, int64_t n, const void* data, fops_dtype type, float* out,
                                  void* stream) {
  try {
    return net ? net->net->forward_device(n, data, type, out, stream) : fail(FOPS_INVALID, "no network was given");
  } catch (...) {
    return caught();
  }
}

}  // extern "C"
