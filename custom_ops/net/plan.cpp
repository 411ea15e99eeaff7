#include "plan.h"

#include <algorithm>

#include "integers.h"
#include "status.h"

namespace fops {

namespace {

std::string attribute(const Node& node, const char* key, const char* otherwise) {
  const auto found = node.attributes.find(key);
  return found == node.attributes.end() ? otherwise : found->second;
}

bool truth(const Node& node, const char* key, bool otherwise) {
  const std::string value = attribute(node, key, otherwise ? "True" : "False");
  return value == "True" || value == "true" || value == "1";
}

bool given(const Node& node, const char* key) {
  const std::string value = attribute(node, key, "None");
  return value != "None" && !value.empty();
}

// Whether all the numbers of an attribute are `wanted`; a missing one has MXNet's default.
bool all(const Node& node, const char* key, const char* otherwise, long wanted) {
  std::vector<long> numbers;
  const std::string value = attribute(node, key, otherwise);
  if (value == "()" || value == "[]" || value == "None") return true;  // MXNet fills these in with its default
  return integers(value, &numbers) && std::all_of(numbers.begin(), numbers.end(), [&](long n) { return n == wanted; });
}

// A positive size, square when it has two numbers; 0 for anything else.
long side(const Node& node, const char* key, size_t dimensions) {
  std::vector<long> numbers;
  if (!integers(attribute(node, key, ""), &numbers) || numbers.size() > 2) return 0;
  if (dimensions == 2 && numbers.size() != 2) return 0;
  return numbers.front() == numbers.back() && numbers.front() > 0 ? numbers.front() : 0;
}

// The reason why a node of a known operator can't be fused; "" when it can.
std::string refusal(const Node& n, Role wanted) {
  switch (wanted) {
    case Role::convolution:
      if (!side(n, "num_filter", 1)) return "its num_filter is not a positive number";
      if (n.op == "New") return side(n, "kernel", 1) ? "" : "its kernel is not a square size";
      if (!side(n, "kernel", 2)) return "its kernel is not square in two dimensions";
      if (!all(n, "stride", "1", 1) || !all(n, "dilate", "1", 1)) return "its stride or dilation is not 1";
      if (!all(n, "pad", "0", 0)) return "it pads the image";
      if (!all(n, "num_group", "1", 1)) return "it has groups";
      if (!truth(n, "no_bias", false)) return "it has a bias";
      return given(n, "layout") && attribute(n, "layout", "") != "NCHW" ? "its layout is not NCHW" : "";
    case Role::dense:
      if (!side(n, "num_hidden", 1)) return "its num_hidden is not a positive number";
      return truth(n, "flatten", true) ? "" : "it does not flatten its data";
    case Role::tanh:
      return n.op == "tanh" || attribute(n, "act_type", "") == "tanh" ? "" : "its act_type is not tanh";
    case Role::pool:
      if (attribute(n, "pool_type", "max") != "max") return "its pool_type is not max";
      if (truth(n, "global_pool", false)) return "it pools globally";
      if (side(n, "kernel", 2) != 2 || side(n, "stride", 2) != 2) return "its window or stride is not 2x2";
      if (!all(n, "pad", "0", 0)) return "it pads the image";
      if (given(n, "layout") && attribute(n, "layout", "") != "NCHW") return "its layout is not NCHW";
      return attribute(n, "pooling_convention", "valid") == "valid" ? "" : "its pooling_convention is not valid";
    case Role::softmax:
      if (n.op == "SoftmaxOutput")
        return truth(n, "multi_output", false) || truth(n, "preserve_shape", false) ? "it has several outputs" : "";
      if (!all(n, "axis", "-1", -1) && !all(n, "axis", "-1", 1)) return "its axis is not the last one";
      if (given(n, "temperature") || given(n, "dtype") || truth(n, "use_length", false))
        return "it has a temperature, a length or another type";
      return "";
    default:
      return "";
  }
}

}  // namespace

Role role(const Node& node, std::string* why) {
  static const std::map<std::string, Role> operators = {
      {"New", Role::convolution},   {"Convolution", Role::convolution}, {"FullyConnected", Role::dense},
      {"Activation", Role::tanh},   {"tanh", Role::tanh},               {"Pooling", Role::pool},
      {"Flatten", Role::flatten},   {"flatten", Role::flatten},         {"SoftmaxOutput", Role::softmax},
      {"softmax", Role::softmax},
  };
  const auto found = operators.find(node.op);
  const std::string reason =
      found == operators.end() ? "the fused mode has no " + node.op : refusal(node, found->second);
  if (why) *why = reason;
  return reason.empty() ? found->second : Role::none;
}

int data_input(const std::vector<Node>& nodes) {
  int variables = 0;
  std::vector<int> input;  // of each node so far: its index among the variables, or -1
  for (const Node& node : nodes) {
    if (node.op != "null") return node.inputs.empty() ? -1 : input[node.inputs[0]];
    input.push_back(variables++);
  }
  return -1;
}

namespace {

class Planner {
 public:
  Planner(const std::vector<Node>& nodes, const std::vector<int64_t>& shape, Plan* plan)
      : nodes_(nodes), item_{1, 1, 1}, flat_(shape.size() == 1), plan_(*plan) {
    plan_ = {};
    input_.assign(nodes.size(), -1);
    if (shape.size() == 1) item_.C = shape[0];
    if (shape.size() == 3) item_ = {shape[0], shape[1], shape[2]};
  }

  fops_status run() {
    for (size_t i = 0; i < nodes_.size(); ++i) {
      const Node& node = nodes_[i];
      if (node.op == "null") {
        input_[i] = static_cast<int>(plan_.inputs.size());
        plan_.inputs.push_back(node.name);
        plan_.shapes.emplace_back();
      } else if (fops_status s = add(static_cast<int>(i))) {
        return s;
      }
    }
    if (plan_.stages.empty()) return fail(FOPS_UNSUPPORTED, "the network has no layer to fuse");
    plan_.stages.back().name += flattened_.empty() ? "" : "+" + flattened_;
    return FOPS_OK;
  }

 private:
  fops_status refuse(const Node& node, const std::string& why) {
    return fail(FOPS_UNSUPPORTED, "%s '%s' cannot be fused: %s", node.op.c_str(), node.name.c_str(), why.c_str());
  }

  // The input of the graph that a node's operand is, with the shape that it must have.
  int variable(const Node& node, size_t operand, std::vector<int64_t> shape) {
    if (operand >= node.inputs.size()) return -1;
    const int index = input_[node.inputs[operand]];
    if (index < 0 || index == plan_.data) return -1;
    std::vector<int64_t>& known = plan_.shapes[index];
    if (!known.empty() && known != shape) return -1;
    known = std::move(shape);
    return index;
  }

  // The node's name, behind that of a flatten which did nothing but stand before it.
  std::string named(const Node& node) {
    const std::string before = flattened_.empty() ? "" : flattened_ + "+";
    flattened_.clear();
    return before + node.name;
  }

  Stage& open(Stage::Kind kind, const Node& node, const Item& out) {
    Stage stage;
    stage.kind = kind;
    stage.name = named(node);
    stage.in = item_;
    stage.out = out;
    plan_.stages.push_back(stage);
    return plan_.stages.back();
  }

  // The stage that takes this node into its epilogue: the last one, or a new map.
  Stage& epilogue(const Node& node, bool Stage::*flag) {
    if (!plan_.stages.empty()) {
      Stage& last = plan_.stages.back();
      const bool takes = last.kind != Stage::Kind::softmax && !(last.*flag);
      if (takes) {
        last.name += "+" + named(node);
        return last;
      }
    }
    return open(Stage::Kind::map, node, item_);
  }

  fops_status chain(int index) {
    const Node& node = nodes_[index];
    if (node.inputs.empty()) return refuse(node, "it has no input");
    const int from = node.inputs[0];
    if (last_ < 0) {
      plan_.data = data_input(nodes_);
      if (plan_.data < 0) return refuse(node, "its data is not an input of the graph");
      plan_.shapes[plan_.data] = {item_.C};
      if (!flat_) plan_.shapes[plan_.data] = {item_.C, item_.H, item_.W};
    } else if (from != last_) {
      return refuse(node, "it does not follow the node before it");
    }
    last_ = index;
    return FOPS_OK;
  }

  fops_status add(int index) {
    const Node& node = nodes_[index];
    std::string why;
    const Role what = role(node, &why);
    if (what == Role::none) return refuse(node, why);
    if (fops_status s = chain(index)) return s;
    switch (what) {
      case Role::convolution: return convolution(node);
      case Role::dense: return dense(node);
      case Role::tanh: epilogue(node, &Stage::tanh).tanh = true; return FOPS_OK;
      case Role::pool: return pool(node);
      case Role::flatten: return flatten(node);
      default: return softmax(node);
    }
  }

  fops_status convolution(const Node& node) {
    const int64_t K = side(node, "kernel", 1), M = side(node, "num_filter", 1);
    if (flat_) return refuse(node, "its data has no rows and columns");
    if (K > item_.H || K > item_.W) return refuse(node, "its kernel is larger than the image");
    Stage& stage = open(Stage::Kind::convolution, node, {M, item_.H - K + 1, item_.W - K + 1});
    stage.K = K;
    stage.weight = variable(node, 1, {M, item_.C, K, K});
    if (stage.weight < 0) return refuse(node, "its weight is not an input of the graph of its own");
    item_ = stage.out;
    return FOPS_OK;
  }

  fops_status dense(const Node& node) {
    const int64_t units = side(node, "num_hidden", 1);
    Stage& stage = open(Stage::Kind::dense, node, {units, 1, 1});
    stage.weight = variable(node, 1, {units, item_.size()});
    if (stage.weight < 0) return refuse(node, "its weight is not an input of the graph of its own");
    if (!truth(node, "no_bias", false)) {
      stage.bias = variable(node, 2, {units});
      if (stage.bias < 0) return refuse(node, "its bias is not an input of the graph of its own");
    }
    item_ = stage.out;
    flat_ = true;
    return FOPS_OK;
  }

  // Takes no stage: an item's values lie in the same order before and after.
  fops_status flatten(const Node& node) {
    flattened_ = named(node);
    item_ = {item_.size(), 1, 1};
    flat_ = true;
    return FOPS_OK;
  }

  fops_status pool(const Node& node) {
    if (flat_ || item_.H < 2 || item_.W < 2) return refuse(node, "its data has fewer than two rows or columns");
    Stage& stage = epilogue(node, &Stage::pool);
    stage.pool = true;
    stage.out = item_ = {item_.C, item_.H / 2, item_.W / 2};
    return FOPS_OK;
  }

  fops_status softmax(const Node& node) {
    if (node.op == "softmax" && !flat_) return refuse(node, "its data is not flat");
    open(Stage::Kind::softmax, node, item_);
    return FOPS_OK;
  }

  const std::vector<Node>& nodes_;
  Item item_;
  bool flat_;
  Plan& plan_;
  std::vector<int> input_;  // of each node: its index among the graph's inputs, or -1
  int last_ = -1;           // the chain's end so far
  std::string flattened_;   // names of flattens whose stage is still to come
};

}  // namespace

fops_status make_plan(const std::vector<Node>& nodes, const std::vector<int64_t>& shape, Plan* out) {
  if (shape.size() != 1 && shape.size() != 3)
    return fail(FOPS_UNSUPPORTED, "the fused mode takes data of shape (n, C, H, W) or (n, values)");
  for (const int64_t size : shape)
    if (size < 1) return fail(FOPS_UNSUPPORTED, "every size of the data must be at least 1");
  return Planner(nodes, shape, out).run();
}

}  // namespace fops
