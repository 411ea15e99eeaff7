// The partitioner for symbol.optimize_for("fashion_infer"). It replaces each chain of nodes that the planner can fuse by one
// node (network_operator.cpp), if the chain has a convolution or a dense layer. All other nodes stay with MXNet. Options:
// fops_backend=cpu|gpu, fops_device=N, fops_precision=...
#include "mxnet/adapter.h"

using fops::Layer;
using mxnet::ext::MX_SUCCESS;
using mxnet::ext::MXReturnValue;

namespace {

using Options = std::unordered_map<std::string, std::string>;

// Selects the nodes of a chain for MXNet. Two nodes are neighbours in a chain if one is the other's first input.
class ChainSelector : public mxnet::ext::CustomOpSelector {
 public:
  explicit ChainSelector(const mxnet::ext::Graph& graph) : layers_(fops::layers_of(graph)), readers_(layers_.size()) {
    for (const Layer& layer : layers_)
      for (const int input : layer.inputs) ++readers_[input];
    for (const mxnet::ext::NodeEntry& head : graph.outputs)  // an output of the graph counts as a reader
      for (size_t i = 0; i < graph.size(); ++i)
        if (graph.getNode(i) == head.node) ++readers_[i];
  }

  bool Select(int id) override { return fusable(id); }
  bool SelectInput(int id, int input) override { return fusable(input) && linked(input, id); }
  bool SelectOutput(int id, int output) override { return fusable(output) && linked(id, output); }

 private:
  bool linked(int from, int to) const { return layers_[to].inputs[0] == from; }

  // Whether a node may be in a chain. A node with several readers may not, even at the end of a chain: MXNet 1.9.1 would
  // give the chain an output for each reader, and would fail ("basic_string::substr") if another chain reads one of them.
  bool fusable(int id) const {
    const Layer& layer = layers_[id];
    if (layer.kind == Layer::Kind::input || layer.kind == Layer::Kind::other) return false;
    if (readers_[id] > 1 || layer.inputs.empty()) return false;
    for (size_t i = 1; i < layer.inputs.size(); ++i)  // not if the data is also used as a weight
      if (layer.inputs[i] == layer.inputs[0]) return false;
    return !layer.last_axis || flat(layer.inputs[0]);
  }

  // Whether a layer's output has two dimensions, so that its last axis is the whole item.
  bool flat(int id) const {
    for (;; id = layers_[id].inputs[0]) {
      const Layer::Kind kind = layers_[id].kind;
      if (kind == Layer::Kind::dense || kind == Layer::Kind::flatten) return true;
      if (kind != Layer::Kind::tanh && kind != Layer::Kind::relu && kind != Layer::Kind::softmax) return false;
    }
  }

  std::vector<Layer> layers_;
  std::vector<int> readers_;  // per node: how many inputs of other nodes it is
};

MXReturnValue create_selector(const mxnet::ext::Graph* graph, mxnet::ext::CustomOpSelector** out, const Options&) {
  *out = new ChainSelector(*graph);
  return MX_SUCCESS;
}

// Accepts a chain if it has a convolution or a dense layer, and passes the options on to the new node.
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
