// Chooses how a plan's stages run on a device for data of one type: a list of steps, most of which are one or two
// kernels, and the forms of the tensors between the steps.
//
// The choice depends on an upper bound on the magnitude of each tensor's values. The bound is 1 after tanh, 255 for
// uint8 pixels, and unknown for float32 data. A convolution or dense layer multiplies its input's bound by the largest
// sum of |w| over a filter or unit, and adds the largest |bias|. ReLU and pooling leave the bound as it is. If a bound
// is known, one power of two scales the tensor safely into half precision's range, and the next dense layer can run on
// the matrix units. Otherwise that layer runs in float32. Items whose values are too far below the bound for half
// precision are recomputed after the last step (kernels/recompute.cu).
#pragma once

#include <vector>

#include "conv/cuda/halves_out.h"
#include "net/cuda/kernels/dense/dense.h"
#include "net/cuda/kernels/stages.h"
#include "net/cuda/weights.h"

namespace fops {

struct Step {
  enum class Kind {
    conv_pixels,  // kernels/conv_pixels/
    conv_pool,    // kernels/conv_pool/
    conv,         // a kernel of the table writes to `scratch`, and run_map continues; without scratch, to the output
    conv_halves,  // a kernel of the table that also does activation and conversion to halves (conv/cuda/halves_out.h)
    map,          // activation and pool; or conversion to halves before a dense step
    dense,        // the kernels of dense.h; the input is in halves
    dense_plain,  // a dense layer in float32 as a 1x1 convolution, then bias and activation
    few_units,    // kernels/few_units.cu, with the next stage if that is a softmax
    softmax
  };
  Kind kind;
  int stage;             // the stage to which the step's time is attributed
  bool softmax = false;  // few_units: whether the step includes the next stage, a softmax
  Item in, out;
  Pool pool;
  Activation activation = Activation::none;
  Tensor::Form form = Tensor::Form::float32;  // form of the output
  float scale = 1.0f;                         // scale of the output if its form is halves
  bool side_by_side = false;                  // conv_halves: the order of the outputs (conv/cuda/halves_out.h)
  int64_t scratch = 0;                        // floats of scratch memory per item
  int64_t doubt_at = 0, doubt_words = 0;      // dense: start and number of its words of Doubts, per item
  int64_t out_bytes() const { return form == Tensor::Form::halves ? 2 * 2 * dense_stride(out.size()) : 4 * out.size(); }
};

// Returns the order in which the table's kernel for this convolution of float32 data can write halves; `none` if it
// cannot. The choice of kernel does not depend on the number of items. A stage with tanh gives `none`: a kernel with
// the branch of a tanh in it would be compiled to wait after each wgmma. Such a stage's tanh runs in the map.
HalvesOrder halves_of(const Stage& stage);

// Returns the steps of a plan. `matrix_units`: whether the device has the mma instruction that dense.h and
// kernels/conv_pixels/ use (sm_80 and newer).
std::vector<Step> make_route(const Plan& plan, const std::vector<StageWeights>& weights, fops_dtype type,
                             bool matrix_units);

}  // namespace fops
