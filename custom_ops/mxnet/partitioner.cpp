// The partitioner behind symbol.optimize_for("fashion_infer"): it cuts out of MXNet's graph every chain of nodes that
// the planner can fuse, and leaves the rest to MXNet. Options: run_on=cpu|gpu, device=N, precision=...
#include "adapter.h"

using fops::Node;
using fops::Role;
using mxnet::ext::MX_SUCCESS;
using mxnet::ext::MXReturnValue;

namespace {

using Options = std::unordered_map<std::string, std::string>;

// Grows a chain from a node, along first inputs.
class ChainSelector : public mxnet::ext::CustomOpSelector {
 public:
  explicit ChainSelector(const mxnet::ext::Graph& graph) : nodes_(fops::nodes_of(graph)), readers_(nodes_.size()) {
    for (const Node& node : nodes_)
      for (const int input : node.inputs) ++readers_[input];
    for (const mxnet::ext::NodeEntry& head : graph.outputs)  // what leaves the graph has a reader outside
      for (size_t i = 0; i < graph.size(); ++i)
        if (graph.getNode(i) == head.node) ++readers_[i];
  }

  bool Select(int id) override { return fusable(id); }
  bool SelectInput(int id, int input) override { return fusable(input) && linked(input, id); }
  bool SelectOutput(int id, int output) override { return fusable(output) && linked(id, output); }

 private:
  bool linked(int from, int to) const { return nodes_[to].inputs[0] == from; }

  // A node with several readers stays with MXNet even at a chain's end: MXNet 1.9.1 would give the subgraph an output
  // for each reader, and fails ("basic_string::substr") where one of these is read by another subgraph.
  bool fusable(int id) const {
    const Node& node = nodes_[id];
    if (node.op == "null" || readers_[id] > 1 || fops::role(node) == Role::none || node.inputs.empty()) return false;
    for (size_t i = 1; i < node.inputs.size(); ++i)  // weights that are the data as well
      if (node.inputs[i] == node.inputs[0]) return false;
    return node.op != "softmax" || flat(node.inputs[0]);
  }

  // Whether what a node makes has two dimensions, so that its last axis is all of an item.
  bool flat(int id) const {
    for (;;) {
      const Node& node = nodes_[id];
      switch (fops::role(node)) {
        case Role::dense:
        case Role::flatten: return true;
        case Role::tanh:
        case Role::softmax: break;
        default: return false;
      }
      id = node.inputs[0];
    }
  }

  std::vector<Node> nodes_;
  std::vector<int> readers_;
};

MXReturnValue create_selector(const mxnet::ext::Graph* graph, mxnet::ext::CustomOpSelector** out, const Options&) {
  *out = new ChainSelector(*graph);
  return MX_SUCCESS;
}

// A chain is worth a stage of its own when it has a convolution or a matrix product.
MXReturnValue review(const mxnet::ext::Graph* subgraph, int, bool* accept, const Options& options,
                     Options* attributes) {
  *accept = false;
  for (const Node& node : fops::nodes_of(*subgraph)) {
    const Role role = node.op == "null" ? Role::none : fops::role(node);
    *accept |= role == Role::convolution || role == Role::dense;
  }
  for (const char* name : {"run_on", "device", "precision"})
    if (options.count(name)) (*attributes)[name] = options.at(name);
  return MX_SUCCESS;
}

}  // namespace

REGISTER_PARTITIONER(fashion_infer)
    .addStrategy("chains", "_fashion_infer_net")
    .setCreateSelector("chains", create_selector)
    .setReviewSubgraph("chains", review);
