// The layers that the planner fuses, independent of the framework whose graph they come from.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace fops {

// A layer of a network. Layers are in topological order; an input is the index of the layer that produces it.
struct Layer {
  enum class Kind {
    input,        // an input of the graph: the items, a weight or a bias
    convolution,  // valid, stride 1, square, one group, no bias: inputs are the data and the weight (units, C, K, K)
    dense,        // over all values of an item: the data, the weight (units, values) and, with `bias`, the bias (units)
    tanh,
    relu,         // max(x, 0); NaN stays NaN
    max_pool,     // square windows. Incomplete windows at the lower and right border are dropped, or with `full`
                  // become smaller ones; then stride <= size, else a window could begin outside the border
    flatten,
    softmax,      // over all values of an item; with `last_axis` the data must be flat
    other         // cannot be fused
  };
  Kind kind = Kind::other;
  std::string name;
  std::string type;     // the layer type's name in the network's framework, for messages
  std::string refusal;  // for `other`: why it cannot be fused
  int number = 0;       // the layer's number in the op-time log
  std::vector<int> inputs;

  int64_t units = 0;       // convolution: filters; dense: units
  int64_t K = 0;           // convolution: the kernel's side
  int64_t size = 0;        // max_pool: a window's side
  int64_t stride = 0;      // max_pool: pixels between two windows
  bool full = false;       // max_pool: whether incomplete windows are kept
  bool bias = false;       // dense: whether it has a bias
  bool last_axis = false;  // softmax
};

// Index, among the graph's inputs, of the one that holds the items: the first operand of the first layer that is not
// itself an input. -1 if that operand is not an input of the graph.
int data_input(const std::vector<Layer>& layers);

}  // namespace fops
