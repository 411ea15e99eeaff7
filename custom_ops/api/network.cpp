// The C API: creates, describes and runs whole networks.
#include "base/status.h"
#include "mxnet/layers.h"
#include "net/network.h"

struct fops_network {
  std::unique_ptr<fops::Network> network;
};

using namespace fops;

namespace {

const Plan& plan_of(const fops_network* network) { return network->network->plan(); }

const char* name_of(Stage::Kind kind) {
  switch (kind) {
    case Stage::Kind::convolution: return "convolution";
    case Stage::Kind::dense: return "dense";
    case Stage::Kind::map: return "map";
    default: return "softmax";
  }
}

fops_activation activation_of(const Stage& stage) {
  switch (stage.activation) {
    case Activation::tanh: return FOPS_TANH;
    case Activation::relu: return FOPS_RELU;
    default: return FOPS_NO_ACTIVATION;
  }
}

bool convert(const fops_node* nodes, int count, std::vector<Layer>* out) {
  for (int i = 0; i < count; ++i) {
    const fops_node& from = nodes[i];
    Attributes attributes;
    for (int a = 0; a < from.attribute_count; ++a) attributes[from.keys[a]] = from.values[a];
    Layer layer = layer_of(from.op, from.name, attributes);
    layer.number = from.number;
    layer.inputs.assign(from.inputs, from.inputs + from.input_count);
    for (const int input : layer.inputs)
      if (input < 0 || input >= i) return false;
    out->push_back(std::move(layer));
  }
  return true;
}

template <typename F>
fops_status on(fops_network* network, F body) {
  if (!network) return fail(FOPS_INVALID, "no network was given");
  return guarded([&] { return body(*network->network); });
}

}  // namespace

extern "C" {

fops_status fops_network_create(const fops_node* nodes, int node_count, const int64_t* shape, int dimensions,
                                fops_backend backend, int device, const char* precision, fops_network** out) {
  return guarded([&]() -> fops_status {
    if (!nodes || node_count < 1 || !shape || dimensions < 1 || !out)
      return fail(FOPS_INVALID, "a network needs nodes, the shape of an item and a place for the result");
    std::vector<Layer> layers;
    if (!convert(nodes, node_count, &layers))
      return fail(FOPS_INVALID, "a node takes its input from one that does not come before it");
    auto handle = std::make_unique<fops_network>();
    const fops_status status =
        Network::make(layers, {shape, shape + dimensions}, backend, device, precision, &handle->network);
    if (status != FOPS_OK) return status;
    *out = handle.release();
    return FOPS_OK;
  });
}

void fops_network_destroy(fops_network* network) { delete network; }

int fops_network_input_count(const fops_network* network) {
  return network ? static_cast<int>(plan_of(network).inputs.size()) : 0;
}

const char* fops_network_input_name(const fops_network* network, int index) {
  if (!network) return "";
  const auto& inputs = plan_of(network).inputs;
  return index >= 0 && index < static_cast<int>(inputs.size()) ? inputs[index].c_str() : "";
}

int64_t fops_network_input_size(const fops_network* network, int index) {
  if (!network) return 0;
  const auto& shapes = plan_of(network).shapes;
  if (index < 0 || index >= static_cast<int>(shapes.size()) || shapes[index].empty()) return 0;
  int64_t count = 1;
  for (const int64_t size : shapes[index]) count *= size;
  return count;
}

int fops_network_data(const fops_network* network) { return network ? plan_of(network).data : -1; }

int fops_network_stage_count(const fops_network* network) {
  return network ? static_cast<int>(plan_of(network).stages.size()) : 0;
}

fops_status fops_network_stage(const fops_network* network, int index, fops_stage_info* out) {
  if (!network) return fail(FOPS_INVALID, "no network was given");
  const auto& stages = plan_of(network).stages;
  if (!out || index < 0 || index >= static_cast<int>(stages.size()))
    return fail(FOPS_INVALID, "stage index %d is outside 0 to %d", index, static_cast<int>(stages.size()) - 1);
  const Stage& s = stages[index];
  *out = {s.name.c_str(),
          name_of(s.kind),
          s.first_node,
          s.last_node,
          {s.in.C, s.in.H, s.in.W},
          {s.out.C, s.out.H, s.out.W},
          s.K,
          activation_of(s),
          s.pool.size,
          s.pool.stride};
  return FOPS_OK;
}

fops_status fops_network_set_weights(fops_network* network, const float* const* values, const uint64_t* versions) {
  return guarded([&]() -> fops_status {
    if (!network || !values || !versions) return fail(FOPS_INVALID, "a network, weights and versions are needed");
    std::vector<Weight> weights;
    for (int i = 0; i < fops_network_input_count(network); ++i) weights.push_back({values[i], versions[i]});
    return network->network->set_weights(weights);
  });
}

fops_status fops_network_forward(fops_network* network, int64_t n, const void* data, fops_dtype type, float* out,
                                 int log) {
  return on(network, [&](Network& all) { return all.forward(n, data, type, out, log != 0); });
}

fops_status fops_network_predict(fops_network* network, int64_t n, const void* data, fops_dtype type,
                                 int32_t* classes) {
  return on(network, [&](Network& all) { return all.predict(n, data, type, classes); });
}

fops_status fops_network_forward_gpu(fops_network* network, int64_t n, const void* data, fops_dtype type, float* out,
                                     void* stream) {
  return on(network, [&](Network& all) { return all.forward_device(n, data, type, out, stream); });
}

}  // extern "C"
