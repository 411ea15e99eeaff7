// The plan of a network: a list of fused stages. The planner makes it from a chain of layers, and an executor runs it.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "fashion_ops.h"
#include "net/layers.h"

namespace fops {

// Sizes of one item (image). After a dense stage, C is the number of values and H = W = 1.
struct Item {
  int64_t C, H, W;
  int64_t size() const { return C * H * W; }
};

enum class Activation { none, tanh, relu };

// A max pool. Each value of the stage's `out` comes from one window. Every window begins inside the image.
struct Pool {
  int64_t size = 0, stride = 0;  // a window's side; distance from one window to the next; 0: no pool
  bool cut = false;              // whether some windows extend beyond the border, and are smaller there
  explicit operator bool() const { return size > 0; }
  // Whether it is the most common pool, for which there is faster code: complete 2x2 windows with stride 2.
  bool pairs() const { return size == 2 && stride == 2 && !cut; }
};

struct Stage {
  enum class Kind {
    convolution,  // a convolution without padding, with stride 1, square, no bias; then the epilogue
    dense,        // y = weight x + bias over all values x of an item; then the epilogue, which does not pool
    map,          // only an epilogue, if the stage before it cannot include it
    softmax       // over all values of an item
  };
  Kind kind;
  std::string name;                   // the fused layers' names, joined by '+'
  int first_node = 0, last_node = 0;  // numbers of the first and the last fused layer
  Item in, out;
  // The epilogue: at most one pool and one activation. The executors pool first, whatever the order in the chain, because
  // that leaves fewer values to activate. The results are the same: tanh and ReLU are monotonic, so the largest of a
  // window's activations is the activation of its largest value; and the pool and both activations keep NaN.
  Pool pool;
  Activation activation = Activation::none;
  int64_t K = 0;  // convolution: the kernel's side
  int weight =
      -1;         // index of the weight among the graph's inputs; its shape is (M,C,K,K) or, if dense, (units, inputs)
  int bias = -1;  // index of the bias of a dense stage, shape (units); -1 if it has none
};

struct Plan {
  std::vector<std::string> inputs;           // names of the graph's inputs, in their order
  std::vector<std::vector<int64_t>> shapes;  // required shape of each input (of the data: of one item); empty if not read
  int data = -1;                             // index of the input that holds the items
  std::vector<Stage> stages;

  const Item& in() const { return stages.front().in; }
  const Item& out() const { return stages.back().out; }
};

// Plans a chain of layers: every layer except the graph's inputs can be fused, and takes the previous layer as its first
// input. `shape` is the shape of one item of the data: (C, H, W), or (values) if it is flat. For anything else, returns
// FOPS_UNSUPPORTED, and the message has the layer and the reason.
fops_status make_plan(const std::vector<Layer>& layers, const std::vector<int64_t>& shape, Plan* out);

}  // namespace fops
