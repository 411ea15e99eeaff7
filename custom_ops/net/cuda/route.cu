#include "net/cuda/route.h"

#include <cmath>

#include "conv/cuda/halves_out.h"
#include "conv/dispatch.h"
#include "conv/hopper/table.h"
#include "net/cuda/kernels/recompute.h"

namespace fops {
namespace {

// Returns the power of two that scales `bound` into [2^13, 2^14), a quarter of half precision's range.
float scale_below(double bound) {
  int exponent = 0;
  std::frexp(bound, &exponent);  // bound < 2^exponent
  return std::ldexp(1.0f, std::max(-100, std::min(100, 14 - exponent)));
}

// Whether a scale can be derived from `bound`. Bounds outside this range are treated as unknown, because scale_below
// would clamp their scale.
bool usable(double bound) { return bound > 1e-25 && bound < 1e25; }

}  // namespace

HalvesOrder halves_of(const Stage& stage) {
  if (stage.kind != Stage::Kind::convolution || stage.pool || stage.activation == Activation::tanh)
    return HalvesOrder::none;
  const fops_conv conv{1, stage.in.C, stage.in.H, stage.in.W, stage.out.C, stage.K, FOPS_FLOAT32};
  const Kernel* kernel = nullptr;
  const bool ours = choose(FOPS_GPU, conv, &kernel) == FOPS_OK && kernel->run == run_tensor_core;
  return ours ? halves_order(conv) : HalvesOrder::none;
}

std::vector<Step> make_route(const Plan& plan, const std::vector<StageWeights>& weights, fops_dtype type,
                             bool matrix_units) {
  const auto& stages = plan.stages;
  const auto few = [&](size_t i) { return stages[i].kind == Stage::Kind::dense && stages[i].out.size() <= kFewUnits; };
  // Whether stage i is a dense layer that runs on the matrix units if its input has this bound, and values in this
  // order (halves_out.h). The stage's weights are laid out for only one of the two orders.
  const auto wants_halves = [&](size_t i, double bound, bool side_by_side) {
    return i < stages.size() && stages.size() <= kMostRecomputed && stages[i].kind == Stage::Kind::dense && !few(i) &&
           matrix_units && weights[i].packed_dense && usable(bound) && side_by_side == (weights[i].dense.filters > 0);
  };

  std::vector<Step> steps;
  int64_t doubt_words_so_far = 0;
  double bound = type == FOPS_UINT8 ? 255.0 : INFINITY;
  Tensor::Form form = type == FOPS_UINT8 ? Tensor::Form::uint8 : Tensor::Form::float32;
  for (size_t i = 0; i < stages.size(); ++i) {
    const Stage& stage = stages[i];
    const StageWeights& w = weights[i];
    Step step;
    step.stage = static_cast<int>(i);
    step.in = stage.in, step.out = stage.out;
    step.pool = stage.pool, step.activation = stage.activation;
    // `next` is the bound on the stage's outputs. The factor 1 + 1e-4 allows for rounding in the sums.
    double next = bound;
    if (stage.kind == Stage::Kind::convolution || stage.kind == Stage::Kind::dense)
      next = (bound * w.sum + w.bias_largest) * (1 + 1e-4);
    if (stage.activation == Activation::tanh || stage.kind == Stage::Kind::softmax) next = 1.0;
    if (!std::isfinite(next)) next = INFINITY;

    switch (stage.kind) {
      case Stage::Kind::convolution: {
        const HalvesOrder order = form == Tensor::Form::float32 ? halves_of(stage) : HalvesOrder::none;
        const bool side_by_side = order == HalvesOrder::side_by_side;
        if (matrix_units && w.packed_pixels) {
          step.kind = Step::Kind::conv_pixels;
        } else if (w.packed_conv_pool && (stage.in.C == 1 || form == Tensor::Form::float32)) {
          step.kind = Step::Kind::conv_pool;
        } else if (order != HalvesOrder::none && wants_halves(i + 1, next, side_by_side)) {
          step.kind = Step::Kind::conv_halves, step.side_by_side = side_by_side;
        } else {
          step.kind = Step::Kind::conv;
          const int64_t unpooled = stage.out.C * (stage.in.H - stage.K + 1) * (stage.in.W - stage.K + 1);
          if (stage.activation != Activation::none || stage.pool || wants_halves(i + 1, next, false))
            step.scratch = unpooled;
        }
        break;
      }
      case Stage::Kind::dense: {
        const bool halves = wants_halves(i, bound, i > 0 && steps.back().side_by_side);
        const int64_t units = stage.out.size();
        if (few(i) || (!halves && units <= kMaxFewUnits && units * stage.in.size() <= kMaxFewWeights)) {
          step.kind = Step::Kind::few_units;
          step.softmax = stage.activation == Activation::none && i + 1 < stages.size() &&
                         stages[i + 1].kind == Stage::Kind::softmax;
        } else if (halves) {
          if (form != Tensor::Form::halves) {
            Step convert;
            convert.kind = Step::Kind::map, convert.stage = step.stage;
            convert.in = convert.out = Item{stage.in.size(), 1, 1};
            convert.form = Tensor::Form::halves, convert.scale = scale_below(bound);
            steps.push_back(convert);
          }
          step.kind = Step::Kind::dense;
          step.doubt_at = doubt_words_so_far, step.doubt_words = doubt_words(step.out.size());
          doubt_words_so_far += step.doubt_words;
        } else {
          step.kind = Step::Kind::dense_plain;
        }
        break;
      }
      case Stage::Kind::map: step.kind = Step::Kind::map; break;
      case Stage::Kind::softmax: step.kind = Step::Kind::softmax; break;
    }
    const bool can_be_halves = (step.kind == Step::Kind::conv_pixels && stage.out.H * stage.out.W % 2 == 0) ||
                               step.kind == Step::Kind::conv_pool || step.kind == Step::Kind::conv ||
                               step.kind == Step::Kind::conv_halves || step.kind == Step::Kind::map;
    if (can_be_halves && wants_halves(i + 1, next, step.side_by_side)) {
      step.form = Tensor::Form::halves;
      step.scale = step.kind == Step::Kind::conv_pixels ? kTanhScale : scale_below(next);
    }
    form = step.form;
    bound = next;
    steps.push_back(step);
    if (step.softmax) ++i, bound = 1.0;
  }
  return steps;
}

}  // namespace fops
