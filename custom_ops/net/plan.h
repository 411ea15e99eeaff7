// A network as a list of fused stages: what the planner makes of a chain of MXNet nodes, and what the executors run.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "fashion_ops.h"

namespace fops {

// A node of MXNet's graph. Nodes stand in topological order; an input is the index of the node that makes it.
struct Node {
  std::string op;  // MXNet's name of the operator; "null" is a variable, an input of the graph
  std::string name;
  std::map<std::string, std::string> attributes;
  std::vector<int> inputs;
};

// One item's (image's) sizes; behind a dense stage H = W = 1.
struct Item {
  int64_t C, H, W;
  int64_t size() const { return C * H * W; }
};

struct Stage {
  enum class Kind {
    convolution,  // y = x * weight, valid, stride 1, square, no bias; then the epilogue
    dense,        // y = weight x + bias over all values of an item; then the epilogue, which never pools
    map,          // the epilogue alone, on what no convolution or dense stage before it could take
    softmax       // over all values of an item
  };
  Kind kind;
  std::string name;  // the fused nodes' names, joined by '+'
  Item in, out;
  // The epilogue. Largest of each 2x2 window and tanh commute (tanh rises), so it is one flag each; a last odd row or
  // column is dropped by the pool, as MXNet's pooling_convention "valid" does.
  bool tanh = false;
  bool pool = false;
  int64_t K = 0;    // convolution: the kernel's side
  int weight = -1;  // index among the graph's inputs: convolution (M,C,K,K), dense (units, inputs)
  int bias = -1;    // dense: (units); -1 when it has none
};

struct Plan {
  std::vector<std::string> inputs;           // names of the graph's variables, in their order
  std::vector<std::vector<int64_t>> shapes;  // what each must be; of `data` the sizes of an item; empty: not read
  int data = -1;                             // which of them holds the items
  std::vector<Stage> stages;

  const Item& in() const { return stages.front().in; }
  const Item& out() const { return stages.back().out; }
};

// What a stage can be made of a node, by its operator and attributes alone.
enum class Role { none, convolution, dense, tanh, pool, flatten, softmax };

// The node's role; for `none` the reason, when `why` is given.
Role role(const Node& node, std::string* why = nullptr);

// Which of the graph's variables, counted in their order, holds the items: the first operand of the first node that is
// none itself; -1 when that is no variable.
int data_input(const std::vector<Node>& nodes);

// The plan of a chain: every node but the variables has a role, takes the node before it as first input and has no
// other reader. `shape` is that of one item of the data: (C, H, W), or (values) behind a flattened one.
// FOPS_UNSUPPORTED, with the node and the reason, for anything else.
fops_status make_plan(const std::vector<Node>& nodes, const std::vector<int64_t>& shape, Plan* out);

}  // namespace fops
