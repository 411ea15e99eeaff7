// Shared by the adapter's files: messages, and MXNet's graphs as the planner's layers.
#pragma once

#include <mxnet/lib_api.h>

#include <cstdlib>
#include <string>
#include <unordered_map>
#include <vector>

#include "mxnet/attributes.h"
#include "mxnet/layers.h"

namespace fops {

// Attributes that fashion_infer adds to nodes. With two underscores at both ends MXNet keeps them on every operator.
constexpr const char* kNodeAttribute = "__fops_node__";        // any node's number, for the op-time log
constexpr const char* kBackendAttribute = "__fops_backend__";  // for New: cpu or gpu
constexpr const char* kDeviceAttribute = "__fops_device__";    // for New: index of the GPU
constexpr const char* kKernelAttribute = "__fops_kernel__";    // for New: the kernel's name, or auto
constexpr const char* kLayerAttribute = "__fops_layer__";      // for New: the node's name, for messages

// A node's number; `otherwise` if it has none.
inline int number_of(const Attributes& attributes, int otherwise) {
  const auto found = attributes.find(kNodeAttribute);
  return found == attributes.end() ? otherwise : atoi(found->second.c_str());
}

// Leaves a message and returns MX_FAIL. MXNet returns every message of the process so far; the marker lets the caller
// find the newest one.
inline mxnet::ext::MXReturnValue failed(const std::string& message) {
  mxnet::ext::MXerrorMsgs::get()->add("operator", 0) << "<<" << message << ">>";
  return mxnet::ext::MX_FAIL;
}

// A graph's nodes in the order of their indices, which is topological. A node without a number gets its index.
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
