// The partitioner for symbol.optimize_for("fashion_infer"): it cuts every chain of nodes that the planner can fuse out
// of MXNet's graph, and leaves the rest to MXNet. Options: fops_backend=cpu|gpu, fops_device=N, fops_precision=...
#include "mxnet/adapter.h"

using fops::Layer;
using mxnet::ext::MX_SUCCESS;
using mxnet::ext::MXReturnValue;

namespace {

using Options = std::unordered_map<std::string, std::string>;

// Grows a chain from a node, along first inputs.
class ChainSelector : public mxnet::ext::CustomOpSelector {
 public:
  explicit ChainSelector(const mxnet::ext::Graph& graph) : layers_(fops::layers_of(graph)), readers_(layers_.size()) {
    for (const Layer& layer : layers_)
      for (const int input : layer.inputs) ++readers_[input];
    for (const mxnet::ext::NodeEntry& head : graph.outputs)  // a graph output has a reader outside
      for (size_t i = 0; i < graph.size(); ++i)
        if (graph.getNode(i) == head.node) ++readers_[i];
  }

  bool Select(int id) override { return fusable(id); }
  bool SelectInput(int id, int input) override { return fusable(input) && linked(input, id); }
  bool SelectOutput(int id, int output) override { return fusable(output) && linked(id, output); }

 private:
  bool linked(int from, int to) const { return layers_[to].inputs[0] == from; }

  // A node with several readers stays with MXNet even at a chain's end: MXNet 1.9.1 would give the subgraph an output
  // for each reader, and fails ("basic_string::substr") where one of these is read by another subgraph.
  bool fusable(int id) const {
    const Layer& layer = layers_[id];
    if (layer.kind == Layer::Kind::input || layer.kind == Layer::Kind::other) return false;
    if (readers_[id] > 1 || layer.inputs.empty()) return false;
    for (size_t i = 1; i < layer.inputs.size(); ++i)  // weights that are also the data
      if (layer.inputs[i] == layer.inputs[0]) return false;
    return !layer.last_axis || flat(layer.inputs[0]);
  }

  // Whether a layer's output has two dimensions, so that its last axis is the whole item.
  bool flat(int id) const {
    for (;;) {
      const Layer& layer = layers_[id];
      switch (layer.kind) {
        case Layer::Kind::dense:
        case Layer::Kind::flatten: return true;
        case Layer::Kind::tanh:
        case Layer::Kind::relu:
        case Layer::Kind::softmax: break;
        default: return false;
      }
      id = layer.inputs[0];
    }
  }

  std::vector<Layer> layers_;
  std::vector<int> readers_;
};

MXReturnValue create_selector(const mxnet::ext::Graph* graph, mxnet::ext::CustomOpSelector** out, const Options&) {
  *out = new ChainSelector(*graph);
  return MX_SUCCESS;
}

// A chain is worth fusing if it has a convolution or a matrix product.
MXReturnValue review(const mxnet::ext::Graph* subgraph, int, bool* accept, const Options& options,
                     Options* attributes) {
  *accept = false;
  for (const Layer& layer : fops::layers_of(*subgraph))
    *accept |= layer.kind == Layer::Kind::convolution || layer.kind == Layer::Kind::dense;
  for (const char* name : {"fops_backend", "fops_device", "fops_precision"})
    if (options.count(name)) (*attributes)[name] = options.at(name);
  return MX_SUCCESS;
}

}  // namespace

REGISTER_PARTITIONER(fashion_infer)
    .addStrategy("chains", "_fashion_infer_network")
    .setCreateSelector("chains", create_selector)
    .setReviewSubgraph("chains", review);
