// Functions shared by the files of this folder: they report failures to MXNet, and translate MXNet's graphs into the
// planner's layers.
#pragma once

#include <mxnet/lib_api.h>

#include <cstdlib>
#include <string>
#include <unordered_map>
#include <vector>

#include "mxnet/attributes.h"
#include "mxnet/layers.h"

namespace fops {

// Names of the attributes that fashion_infer adds to nodes. MXNet accepts any attribute whose name begins and ends with two
// underscores, on every operator. All but the first are only for the operator New.
constexpr const char* kNodeAttribute = "__fops_node__";        // the node's number in the op-time log
constexpr const char* kBackendAttribute = "__fops_backend__";  // cpu or gpu
constexpr const char* kDeviceAttribute = "__fops_device__";    // index of the GPU
constexpr const char* kKernelAttribute = "__fops_kernel__";    // the kernel's name, or auto
constexpr const char* kLayerAttribute = "__fops_layer__";      // the node's name, for messages

// Returns a node's number in the op-time log, or `otherwise` if it has none.
inline int number_of(const Attributes& attributes, int otherwise) {
  const auto found = attributes.find(kNodeAttribute);
  return found == attributes.end() ? otherwise : atoi(found->second.c_str());
}

// Passes a message to MXNet and returns MX_FAIL. MXNet reports all messages of the process so far, joined; << and >> mark
// the beginning and end of each, so that the caller can find the newest one.
inline mxnet::ext::MXReturnValue failed(const std::string& message) {
  mxnet::ext::MXerrorMsgs::get()->add("operator", 0) << "<<" << message << ">>";
  return mxnet::ext::MX_FAIL;
}

// Returns a graph's nodes as layers, in the order of their indices, which is topological. A node without a number gets its
// index as its number.
inline std::vector<Layer> layers_of(const mxnet::ext::Graph& graph) {
  std::unordered_map<const mxnet::ext::Node*, int> index;
  std::vector<Layer> layers;
  for (size_t i = 0; i < graph.size(); ++i) {
    const mxnet::ext::Node* from = graph.getNode(i);
    index[from] = static_cast<int>(i);
    Layer layer = layer_of(from->op, from->name, from->attrs);
    layer.number = number_of(from->attrs, static_cast<int>(i));
    for (const mxnet::ext::NodeEntry& input : from->inputs) layer.inputs.push_back(index[input.node]);
    layers.push_back(std::move(layer));
  }
  return layers;
}

}  // namespace fops
