#include "mxnet/layers.h"

#include <algorithm>
#include <map>
#include <set>
#include <string>
#include <vector>

namespace fops {
namespace {

using Kind = Layer::Kind;

bool truth(const Attributes& attributes, const char* key, bool otherwise) {
  const std::string value = attribute(attributes, key, otherwise ? "True" : "False");
  return value == "True" || value == "true" || value == "1";
}

bool given(const Attributes& attributes, const char* key) {
  const std::string value = attribute(attributes, key, "None");
  return value != "None" && !value.empty();
}

// Whether all numbers of an attribute equal `wanted`. `otherwise` is the value of a missing attribute.
bool all(const Attributes& attributes, const char* key, const char* otherwise, long wanted) {
  std::vector<long> numbers;
  const std::string value = attribute(attributes, key, otherwise);
  if (value == "()" || value == "[]" || value == "None") return true;  // MXNet replaces these by its default
  return integers(value, &numbers) && std::all_of(numbers.begin(), numbers.end(), [&](long n) { return n == wanted; });
}

constexpr long kLargestSide = 1 << 30;  // so that the sum and the product of two sizes fit into 64 bits

// Returns the size in an attribute: a positive number, or two equal ones (with `dimensions` == 2, only two). Returns 0 for
// anything else, and for numbers above kLargestSide.
long side(const Attributes& attributes, const char* key, size_t dimensions) {
  std::vector<long> numbers;
  if (!integers(attribute(attributes, key, ""), &numbers) || numbers.size() > 2) return 0;
  if (dimensions == 2 && numbers.size() != 2) return 0;
  const bool sound = numbers.front() == numbers.back() && numbers.front() > 0 && numbers.front() <= kLargestSide;
  return sound ? numbers.front() : 0;
}

long pool_stride(const Attributes& attributes) {
  const std::string value = attribute(attributes, "stride", "None");
  return value == "()" || value == "[]" || value == "None" ? 1 : side(attributes, "stride", 2);
}

// Returns the names of the attributes of an operator that `refusal` accepts: those that it checks, and those that affect
// only speed, memory or training.
const std::set<std::string>& known(const std::string& op) {
  using Names = std::set<std::string>;
  static const Names none;
  static const Names convolution = {"kernel",  "num_filter", "stride",    "dilate",     "pad",      "num_group",
                                    "no_bias", "layout",     "workspace", "cudnn_tune", "cudnn_off"};
  static const Names pooling = {"kernel",      "stride", "pad",     "pool_type", "pooling_convention",
                                "global_pool", "layout", "p_value", "cudnn_off", "count_include_pad"};
  static const Names softmax_output = {"multi_output", "preserve_shape", "grad_scale", "ignore_label",
                                       "use_ignore",   "normalization",  "out_grad",   "smooth_alpha"};
  static const std::map<std::string, Names> of = {
      {"New", convolution},
      {"Convolution", convolution},
      {"FullyConnected", {"num_hidden", "no_bias", "flatten"}},
      {"Activation", {"act_type"}},
      {"Pooling", pooling},
      {"SoftmaxOutput", softmax_output},
      {"softmax", {"axis", "temperature", "dtype", "use_length"}},
  };
  const auto found = of.find(op);
  return found == of.end() ? none : found->second;
}

// Whether an attribute's name begins and ends with two underscores. Any node may have such attributes, from MXNet or from
// this library.
bool hidden(const std::string& key) {
  return key.size() > 4 && key.compare(0, 2, "__") == 0 && key.compare(key.size() - 2, 2, "__") == 0;
}

// Returns the reason why a node of a known operator cannot be fused, or "" if it can.
std::string refusal(const std::string& op, const Attributes& n, Kind wanted) {
  if (wanted != Kind::input)
    for (const auto& attribute : n)
      if (!hidden(attribute.first) && !known(op).count(attribute.first))
        return "the fused mode does not know its attribute " + attribute.first;
  switch (wanted) {
    case Kind::convolution:
      if (!side(n, "num_filter", 1)) return "its num_filter is not a positive number";
      if (!side(n, "kernel", op == "New" ? 1 : 2)) return "its kernel is not square in two dimensions";
      if (!all(n, "stride", "1", 1) || !all(n, "dilate", "1", 1)) return "its stride or dilation is not 1";
      if (!all(n, "pad", "0", 0)) return "it pads the image";
      if (!all(n, "num_group", "1", 1)) return "it has groups";
      if (!truth(n, "no_bias", op == "New")) return "it has a bias";
      return given(n, "layout") && attribute(n, "layout", "") != "NCHW" ? "its layout is not NCHW" : "";
    case Kind::dense:
      if (!side(n, "num_hidden", 1)) return "its num_hidden is not a positive number";
      return truth(n, "flatten", true) ? "" : "it does not flatten its data";
    case Kind::tanh:
      return op != "Activation" || attribute(n, "act_type", "") == "tanh" || attribute(n, "act_type", "") == "relu"
                 ? ""
                 : "its act_type is neither tanh nor relu";
    case Kind::max_pool:
      if (attribute(n, "pool_type", "max") != "max") return "its pool_type is not max";
      if (truth(n, "global_pool", false)) return "it pools globally";
      if (!side(n, "kernel", 2) || !pool_stride(n)) return "its window or stride is not square in two dimensions";
      if (!all(n, "pad", "0", 0)) return "it pads the image";
      if (given(n, "layout") && attribute(n, "layout", "") != "NCHW") return "its layout is not NCHW";
      if (attribute(n, "pooling_convention", "valid") == "valid") return "";
      if (attribute(n, "pooling_convention", "") != "full") return "its pooling_convention is neither valid nor full";
      // A window that begins behind the border has no pixels; MXNet returns the most negative float for it.
      return pool_stride(n) <= side(n, "kernel", 2) ? "" : "its windows may begin behind the border";
    case Kind::softmax:
      if (op == "SoftmaxOutput")
        return truth(n, "multi_output", false) || truth(n, "preserve_shape", false) ? "it has several outputs" : "";
      if (!all(n, "axis", "-1", -1) && !all(n, "axis", "-1", 1)) return "its axis is not the last one";
      if (given(n, "temperature") || given(n, "dtype") || truth(n, "use_length", false))
        return "it has a temperature, a length or another type";
      return "";
    default: return "";
  }
}

}  // namespace

Layer layer_of(const std::string& op, const std::string& name, const Attributes& attributes) {
  static const std::map<std::string, Kind> operators = {
      {"null", Kind::input},
      {"New", Kind::convolution},
      {"Convolution", Kind::convolution},
      {"FullyConnected", Kind::dense},
      {"Activation", Kind::tanh},
      {"tanh", Kind::tanh},
      {"relu", Kind::relu},
      {"Pooling", Kind::max_pool},
      {"Flatten", Kind::flatten},
      {"flatten", Kind::flatten},
      {"SoftmaxOutput", Kind::softmax},
      {"softmax", Kind::softmax},
  };
  Layer layer;
  layer.name = name;
  layer.type = op;
  const auto found = operators.find(op);
  layer.refusal = found == operators.end() ? "the fused mode has no " + op : refusal(op, attributes, found->second);
  if (!layer.refusal.empty()) return layer;
  layer.kind = found->second;
  switch (layer.kind) {
    case Kind::convolution:
      layer.units = side(attributes, "num_filter", 1);
      layer.K = side(attributes, "kernel", 1);
      break;
    case Kind::dense:
      layer.units = side(attributes, "num_hidden", 1);
      layer.bias = !truth(attributes, "no_bias", false);
      break;
    case Kind::tanh:
      if (attribute(attributes, "act_type", "") == "relu" && op == "Activation") layer.kind = Kind::relu;
      break;
    case Kind::max_pool:
      layer.size = side(attributes, "kernel", 2);
      layer.stride = pool_stride(attributes);
      layer.full = attribute(attributes, "pooling_convention", "valid") == "full";
      break;
    case Kind::softmax: layer.last_axis = op == "softmax"; break;
    default: break;
  }
  return layer;
}

}  // namespace fops
