// The layers that the planner (plan.h) fuses. They do not depend on the framework whose graph they come from.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace fops {

// A layer of a network. Layers are in topological order.
struct Layer {
  enum class Kind {
    input,        // an input of the graph: the items, a weight or a bias
    convolution,  // no padding, stride 1, square, one group, no bias; its inputs are the data and the weight
                  // (units, C, K, K)
    dense,  // over all values of an item; its inputs are the data, the weight (units, values) and, if `bias` is set,
            // the bias (units)
    tanh,
    relu,      // max(x, 0); NaN stays NaN
    max_pool,  // square windows. Incomplete windows at the lower and right border are dropped. If `full` is set, they
               // are kept, and stride <= size, because otherwise a window could begin outside the border
    flatten,
    softmax,  // over all values of an item; if `last_axis` is set, the data must be flat
    other     // a layer that cannot be fused
  };
  Kind kind = Kind::other;
  std::string name;
  std::string type;         // the layer type's name in the network's framework, for messages
  std::string refusal;      // for `other`: why it cannot be fused
  int number = 0;           // the layer's number in the op-time log
  std::vector<int> inputs;  // indices of the layers that produce this layer's inputs

  int64_t units = 0;       // convolution: number of filters; dense: number of units
  int64_t K = 0;           // convolution: the kernel's side
  int64_t size = 0;        // max_pool: a window's side
  int64_t stride = 0;      // max_pool: distance in pixels from the start of a window to that of the next
  bool full = false;       // max_pool: whether incomplete windows are kept
  bool bias = false;       // dense: whether it has a bias
  bool last_axis = false;  // softmax: whether it is over the last axis only
};

// Returns which of the graph's inputs holds the items: its index among the inputs, counted from 0. It is the first input of
// the first layer that is not itself an input of the graph. Returns -1 if there is no such input.
int data_input(const std::vector<Layer>& layers);

}  // namespace fops
