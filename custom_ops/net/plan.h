// A network as a list of fused stages, which the planner makes from a chain of layers and the executors run.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "fashion_ops.h"
#include "net/layers.h"

namespace fops {

// Sizes of one item (image); after a dense stage H = W = 1.
struct Item {
  int64_t C, H, W;
  int64_t size() const { return C * H * W; }
};

enum class Activation { none, tanh, relu };

// Max pool, with as many windows as the stage's `out` has values. Every window begins inside the image.
struct Pool {
  int64_t size = 0, stride = 0;  // a window's side, and pixels between two windows; 0: no pool
  bool cut = false;              // whether the border cuts off some windows
  explicit operator bool() const { return size > 0; }
  // The common pool, which has faster code.
  bool pairs() const { return size == 2 && stride == 2 && !cut; }
};

struct Stage {
  enum class Kind {
    convolution,  // y = x * weight, valid, stride 1, square, no bias; then the epilogue
    dense,        // y = weight x + bias over all values of an item; then the epilogue, which never pools
    map,          // only the epilogue, if no convolution or dense stage before it can include it
    softmax       // over all values of an item
  };
  Kind kind;
  std::string name;                    // the fused layers' names, joined by '+'
  int first_node = 0, last_node = 0;   // numbers of the first and the last fused layer
  Item in, out;
  // The epilogue: at most one pool and one activation, whatever their order in the chain. Tanh and ReLU never decrease,
  // so the largest of a window's activations is the activation of its largest value. The executors pool first, which
  // leaves fewer values to activate. This holds for NaN too, which both activations keep.
  Pool pool;
  Activation activation = Activation::none;
  int64_t K = 0;    // convolution: the kernel's side
  int weight = -1;  // index among the graph's inputs: convolution (M,C,K,K), dense (units, inputs)
  int bias = -1;    // dense: (units); -1 if it has none
};

struct Plan {
  std::vector<std::string> inputs;           // names of the graph's inputs, in their order
  std::vector<std::vector<int64_t>> shapes;  // required shape of each input; for `data`, of one item; empty: not read
  int data = -1;                             // index of the input that holds the items
  std::vector<Stage> stages;

  const Item& in() const { return stages.front().in; }
  const Item& out() const { return stages.back().out; }
};

// Plans a chain. In a chain, every layer except the graph's inputs can be fused, takes the previous layer as its first
// input, and is read by no other layer. `shape` is the shape of one item of the data: (C, H, W), or (values) if it is
// flattened. For anything else, returns FOPS_UNSUPPORTED with the layer and the reason.
fops_status make_plan(const std::vector<Layer>& layers, const std::vector<int64_t>& shape, Plan* out);

}  // namespace fops
