// What the adapter's files share: messages and MXNet's graphs as the planner's nodes.
#pragma once

#include <mxnet/lib_api.h>

#include <string>
#include <unordered_map>
#include <vector>

#include "plan.h"

namespace fops {

using Attributes = std::unordered_map<std::string, std::string>;

inline std::string attribute(const Attributes& attributes, const char* name, const char* otherwise) {
  const auto found = attributes.find(name);
  return found == attributes.end() ? otherwise : found->second;
}

// Leaves a message and returns MX_FAIL. MXNet hands back every message of the process so far; the marker lets the
// caller find the newest whole.
inline mxnet::ext::MXReturnValue failed(const std::string& message) {
  mxnet::ext::MXerrorMsgs::get()->add("operator", 0) << "<<" << message << ">>";
  return mxnet::ext::MX_FAIL;
}

// A graph's nodes in the order of their numbers, which is topological.
inline std::vector<Node> nodes_of(const mxnet::ext::Graph& graph) {
  std::unordered_map<const mxnet::ext::Node*, int> number;
  std::vector<Node> nodes;
  for (size_t i = 0; i < graph.size(); ++i) {
    const mxnet::ext::Node* from = graph.getNode(i);
    number[from] = static_cast<int>(i);
    Node node{from->op, from->name, {from->attrs.begin(), from->attrs.end()}, {}};
    for (const mxnet::ext::NodeEntry& input : from->inputs) node.inputs.push_back(number[input.node]);
    nodes.push_back(std::move(node));
  }
  return nodes;
}

}  // namespace fops
