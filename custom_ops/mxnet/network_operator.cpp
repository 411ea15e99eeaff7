// The operator that replaces a chain of nodes of MXNet's graph (partitioner.cpp) and runs the chain as fused stages.
#include <cstdlib>
#include <memory>

#include "mxnet/adapter.h"
#include "net/network.h"

using fops::attribute;
using fops::Attributes;
using fops::failed;
using mxnet::ext::MX_SUCCESS;
using mxnet::ext::MXReturnValue;
using mxnet::ext::MXTensor;

namespace {

class NetworkOperator : public mxnet::ext::CustomStatefulOp {
 public:
  explicit NetworkOperator(fops::Network* network) : network_(network) {}

  MXReturnValue Forward(std::vector<MXTensor>* inputs, std::vector<MXTensor>* outputs,
                        const mxnet::ext::OpResource& resource) override {
    try {
      return run(*inputs, outputs->at(0), resource);
    } catch (const std::exception& error) {  // MXNet's C interface cannot pass exceptions on
      return failed(std::string("the fused network failed: ") + error.what());
    }
  }

 private:
  MXReturnValue run(std::vector<MXTensor>& inputs, MXTensor& output, const mxnet::ext::OpResource& resource) {
    const int index = network_->plan().data;
    const MXTensor& data = inputs.at(index);
    if (data.dtype != mxnet::ext::kUint8 && data.dtype != mxnet::ext::kFloat32)
      return failed("the fused network takes float32 or uint8 data");
    const fops_dtype type = data.dtype == mxnet::ext::kUint8 ? FOPS_UINT8 : FOPS_FLOAT32;
    std::vector<fops::Weight> weights;
    for (const MXTensor& input : inputs) {
      const bool read = input.dtype == mxnet::ext::kFloat32;
      weights.push_back({read ? static_cast<const float*>(input.data_ptr) : nullptr, input.verID});
    }
    weights[index] = {};
    if (network_->set_weights(weights)) return failed(fops_last_error());
    float* out = output.data<float>();
    const bool on_device = data.ctx.dev_type == "gpu";
    const fops_status status =
        on_device ? network_->forward_device(data.shape[0], data.data_ptr, type, out, resource.get_cuda_stream())
                  : network_->forward(data.shape[0], data.data_ptr, type, out, true);
    return status == FOPS_OK ? MX_SUCCESS : failed(fops_last_error());
  }

  std::unique_ptr<fops::Network> network_;
};

MXReturnValue create(const Attributes& attributes, const mxnet::ext::MXContext& context,
                     const std::vector<std::vector<unsigned int>>& shapes, const std::vector<int>,
                     mxnet::ext::CustomStatefulOp** out) {
  try {
    std::unique_ptr<mxnet::ext::Graph> graph(
        mxnet::ext::Graph::fromString(attribute(attributes, MX_STR_SUBGRAPH_SYM_JSON, "{}")));
    const std::vector<fops::Layer> layers = fops::layers_of(*graph);
    const int data = fops::data_input(layers);  // MXNet passes inputs in the order of the graph's variables
    if (data < 0 || data >= static_cast<int>(shapes.size()) || shapes[data].size() < 2)
      return failed("the fused network has no data of shape (n, ...)");
    const bool gpu = context.dev_type == "gpu" || attribute(attributes, "fops_backend", "cpu") == "gpu";
    const int device = context.dev_type == "gpu" ? context.dev_id
                                                 : atoi(attribute(attributes, "fops_device", "0").c_str());
    std::unique_ptr<fops::Network> network;
    if (fops::Network::make(layers, {shapes[data].begin() + 1, shapes[data].end()}, gpu ? FOPS_GPU : FOPS_CPU, device,
                            attribute(attributes, "fops_precision", "float32").c_str(), &network))
      return failed(fops_last_error());
    *out = mxnet::ext::CustomStatefulOp::create<NetworkOperator>(network.release());
    return MX_SUCCESS;
  } catch (const std::exception& error) {
    return failed(std::string("the fused network could not be set up: ") + error.what());
  }
}

}  // namespace

REGISTER_OP(_fashion_infer_network).setIsSubgraphOp().setCreateOpState(create, "cpu").setCreateOpState(create, "gpu");
