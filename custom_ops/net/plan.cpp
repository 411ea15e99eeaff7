#include "net/plan.h"

#include <utility>

#include "base/sizes.h"
#include "base/status.h"

namespace fops {

int data_input(const std::vector<Layer>& layers) {
  int inputs = 0;
  std::vector<int> input;  // of each layer so far, all of which are inputs: its index among the graph's inputs
  for (const Layer& layer : layers) {
    if (layer.kind != Layer::Kind::input) return layer.inputs.empty() ? -1 : input[layer.inputs[0]];
    input.push_back(inputs++);
  }
  return -1;
}

namespace {

// Limits of values per item (8 GB of float32) and of weights per layer (4 TB), which also keep sizes within 64 bits.
constexpr int64_t kMaxItem = INT64_C(1) << 31, kMaxWeights = INT64_C(1) << 40;

class Planner {
 public:
  Planner(const std::vector<Layer>& layers, const std::vector<int64_t>& shape, Plan* plan)
      : layers_(layers), item_{1, 1, 1}, flat_(shape.size() == 1), plan_(*plan) {
    plan_ = {};
    input_.assign(layers.size(), -1);
    if (shape.size() == 1) item_.C = shape[0];
    if (shape.size() == 3) item_ = {shape[0], shape[1], shape[2]};
  }

  fops_status run() {
    for (size_t i = 0; i < layers_.size(); ++i) {
      const Layer& layer = layers_[i];
      if (layer.kind == Layer::Kind::input) {
        input_[i] = static_cast<int>(plan_.inputs.size());
        plan_.inputs.push_back(layer.name);
        plan_.shapes.emplace_back();
      } else if (fops_status s = add(static_cast<int>(i))) {
        return s;
      }
    }
    if (plan_.stages.empty()) return fail(FOPS_UNSUPPORTED, "the network has no layer to fuse");
    if (flattened_.there) append(&plan_.stages.back(), flattened_);
    return FOPS_OK;
  }

 private:
  struct Stretch {
    bool there = false;       // whether there is at least one layer
    std::string name;         // names of the layers, joined by '+'
    int first = 0, last = 0;  // numbers of the first and the last layer
  };

  fops_status refuse(const Layer& layer, const std::string& why) {
    return fail(FOPS_UNSUPPORTED, "%s '%s' cannot be fused: %s", layer.type.c_str(), layer.name.c_str(), why.c_str());
  }

  // Returns which of the graph's inputs is operand `operand` of a layer, and sets the shape that this input must have.
  // Returns -1 if the operand is no input of the graph, is the data, or must already have another shape.
  int variable(const Layer& layer, size_t operand, std::vector<int64_t> shape) {
    if (operand >= layer.inputs.size()) return -1;
    const int index = input_[layer.inputs[operand]];
    if (index < 0 || index == plan_.data) return -1;
    std::vector<int64_t>& known = plan_.shapes[index];
    if (!known.empty() && known != shape) return -1;
    known = std::move(shape);
    return index;
  }

  // Returns the layer together with the flatten layers before it that belong to no stage yet.
  Stretch take(const Layer& layer) {
    const Stretch before = std::exchange(flattened_, {});
    if (!before.there) return {true, layer.name, layer.number, layer.number};
    return {true, before.name + "+" + layer.name, before.first, layer.number};
  }

  static void append(Stage* stage, const Stretch& more) {
    stage->name += "+" + more.name;
    stage->last_node = more.last;
  }

  Stage& open(Stage::Kind kind, const Layer& layer, const Item& out) {
    const Stretch taken = take(layer);
    Stage stage;
    stage.kind = kind;
    stage.name = taken.name;
    stage.first_node = taken.first;
    stage.last_node = taken.last;
    stage.in = item_;
    stage.out = out;
    plan_.stages.push_back(stage);
    return plan_.stages.back();
  }

  // Returns the stage whose epilogue includes this layer (a pool or an activation): the last stage if its epilogue has none
  // of this kind yet, otherwise a new map stage.
  Stage& epilogue(const Layer& layer) {
    if (!plan_.stages.empty()) {
      Stage& last = plan_.stages.back();
      const bool room = layer.kind == Layer::Kind::max_pool ? !last.pool : last.activation == Activation::none;
      if (room && last.kind != Stage::Kind::softmax) {
        append(&last, take(layer));
        return last;
      }
    }
    return open(Stage::Kind::map, layer, item_);
  }

  fops_status chain(int index) {
    const Layer& layer = layers_[index];
    if (layer.inputs.empty()) return refuse(layer, "it has no input");
    const int from = layer.inputs[0];
    if (last_ < 0) {
      plan_.data = data_input(layers_);
      if (plan_.data < 0) return refuse(layer, "its data is not an input of the graph");
      plan_.shapes[plan_.data] = {item_.C};
      if (!flat_) plan_.shapes[plan_.data] = {item_.C, item_.H, item_.W};
    } else if (from != last_) {
      return refuse(layer, "it does not follow the node before it");
    }
    last_ = index;
    return FOPS_OK;
  }

  fops_status add(int index) {
    const Layer& layer = layers_[index];
    if (layer.kind == Layer::Kind::other) return refuse(layer, layer.refusal);
    if (fops_status s = chain(index)) return s;
    switch (layer.kind) {
      case Layer::Kind::convolution: return convolution(layer);
      case Layer::Kind::dense: return dense(layer);
      case Layer::Kind::tanh: epilogue(layer).activation = Activation::tanh; return FOPS_OK;
      case Layer::Kind::relu: epilogue(layer).activation = Activation::relu; return FOPS_OK;
      case Layer::Kind::max_pool: return pool(layer);
      case Layer::Kind::flatten: return flatten(layer);
      default: return softmax(layer);
    }
  }

  fops_status convolution(const Layer& layer) {
    const int64_t K = layer.K, M = layer.units;
    if (flat_) return refuse(layer, "its data has no rows and columns");
    if (K > item_.H || K > item_.W) return refuse(layer, "its kernel is larger than the image");
    if (!within(kMaxItem, {M, item_.H - K + 1, item_.W - K + 1}) || !within(kMaxWeights, {M, item_.C, K, K}))
      return refuse(layer, "its tensors are too large");
    Stage& stage = open(Stage::Kind::convolution, layer, {M, item_.H - K + 1, item_.W - K + 1});
    stage.K = K;
    stage.weight = variable(layer, 1, {M, item_.C, K, K});
    if (stage.weight < 0) return refuse(layer, "its weight is not a separate input of the graph");
    item_ = stage.out;
    return FOPS_OK;
  }

  fops_status dense(const Layer& layer) {
    const int64_t units = layer.units;
    if (!within(kMaxWeights, {units, item_.size()})) return refuse(layer, "its tensors are too large");
    Stage& stage = open(Stage::Kind::dense, layer, {units, 1, 1});
    stage.weight = variable(layer, 1, {units, item_.size()});
    if (stage.weight < 0) return refuse(layer, "its weight is not a separate input of the graph");
    if (layer.bias) {
      stage.bias = variable(layer, 2, {units});
      if (stage.bias < 0) return refuse(layer, "its bias is not a separate input of the graph");
    }
    item_ = stage.out;
    flat_ = true;
    return FOPS_OK;
  }

  // A flatten layer needs no stage, because the order of an item's values does not change.
  fops_status flatten(const Layer& layer) {
    flattened_ = take(layer);
    item_ = {item_.size(), 1, 1};
    flat_ = true;
    return FOPS_OK;
  }

  fops_status pool(const Layer& layer) {
    if (flat_) return refuse(layer, "its data has no rows and columns");
    if (layer.size > item_.H || layer.size > item_.W) return refuse(layer, "its window is larger than the image");
    if (layer.full && layer.stride > layer.size) return refuse(layer, "its windows may begin behind the border");
    const auto windows = [&](int64_t side) {
      return (side - layer.size + (layer.full ? layer.stride - 1 : 0)) / layer.stride + 1;
    };
    Stage& stage = epilogue(layer);
    const Item out = {item_.C, windows(item_.H), windows(item_.W)};
    // Whether the last of `count` windows extends beyond the border.
    const auto cut = [&](int64_t count, int64_t side) { return (count - 1) * layer.stride + layer.size > side; };
    stage.pool = {layer.size, layer.stride, cut(out.H, item_.H) || cut(out.W, item_.W)};
    stage.out = item_ = out;
    return FOPS_OK;
  }

  fops_status softmax(const Layer& layer) {
    if (layer.last_axis && !flat_) return refuse(layer, "its data is not flat");
    open(Stage::Kind::softmax, layer, item_);
    return FOPS_OK;
  }

  const std::vector<Layer>& layers_;
  Item item_;  // sizes of the last layer's output so far
  bool flat_;  // whether this output has no rows and columns
  Plan& plan_;
  std::vector<int> input_;  // per layer: its index among the graph's inputs, or -1
  int last_ = -1;           // index of the chain's last layer so far; -1: none
  Stretch flattened_;       // flatten layers that will belong to the next stage
};

}  // namespace

fops_status make_plan(const std::vector<Layer>& layers, const std::vector<int64_t>& shape, Plan* out) {
  if (shape.size() != 1 && shape.size() != 3)
    return fail(FOPS_UNSUPPORTED, "the fused mode takes data of shape (n, C, H, W) or (n, values)");
  for (const int64_t size : shape)
    if (size < 1) return fail(FOPS_UNSUPPORTED, "every size of the data must be at least 1");
  if (!within(kMaxItem, {shape[0], shape.size() == 3 ? shape[1] : 1, shape.size() == 3 ? shape[2] : 1}))
    return fail(FOPS_UNSUPPORTED, "an item of the data has more than 2^31 values");
  return Planner(layers, shape, out).run();
}

}  // namespace fops
