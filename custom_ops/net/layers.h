// The vocabulary of layers: what the planner fuses, whatever framework's graph it came from.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace fops {

// A layer of a network. Layers stand in topological order; an input is the index of the layer that makes it.
struct Layer {
  enum class Kind {
    input,        // of the graph: the items, a weight or a bias
    convolution,  // valid, stride 1, square, one group, no bias: inputs are the data and the weight (units, C, K, K)
    dense,        // over all values of an item: the data, the weight (units, values), and with `bias` that (units)
    tanh,
    relu,         // max(x, 0); NaN stays NaN
    max_pool,     // square windows. What fills no whole window at the lower and right border is dropped, or with `full`
                  // makes a smaller one; then stride <= size, else a window could begin behind the border
    flatten,
    softmax,      // over all values of an item; with `last_axis` the data has to be flat for that
    other         // cannot be fused
  };
  Kind kind = Kind::other;
  std::string name;
  std::string type;     // what the network's author calls such a layer, for messages
  std::string refusal;  // of `other`: why it cannot be fused
  int number = 0;       // what the op-time log calls it
  std::vector<int> inputs;

  int64_t units = 0;       // convolution: filters; dense: units
  int64_t K = 0;           // convolution: the kernel's side
  int64_t size = 0;        // max_pool: a window's side
  int64_t stride = 0;      // max_pool: pixels from one window to the next
  bool full = false;       // max_pool
  bool bias = false;       // dense
  bool last_axis = false;  // softmax
};

// Which of the graph's inputs, counted in their order, holds the items: the first operand of the first layer that is
// none itself; -1 when that is no input of the graph.
int data_input(const std::vector<Layer>& layers);

}  // namespace fops
