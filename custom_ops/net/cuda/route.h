// How a plan's stages run on a device for data of one type: a list of steps, each of which is a kernel or two, and the
// forms of the tensors between the steps.
//
// The choice depends on a bound on every tensor's largest magnitude. The bound is 1 after tanh, 255 for uint8 pixels,
// and unknown for float32 data. A convolution multiplies it by its filters' largest sum of |w|; ReLU and the pool keep
// it. If a bound is known, one power of two scales the tensor safely into half's range, and the matrix units run the
// next dense layer. Otherwise that layer runs in plain float32. Items whose values are too far below the bound for
// halves are computed again after the last step (kernels/recompute.cu).
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
    conv,         // a kernel of the table into `scratch`, then the map; or straight into the output
    conv_halves,  // conv/cuda/halves_out.h: a kernel of the table that includes activation and conversion to halves
    map,          // also does the conversion to halves before a dense step
    dense,        // dense.h, from halves
    dense_plain,  // in float32 as a 1x1 convolution, then bias and activation
    few_units,    // kernels/few_units.cu, which may include the softmax after it
    softmax
  };
  Kind kind;
  int stage;             // the stage to which the step's time is attributed
  bool softmax = false;  // few_units: includes the next stage, a softmax
  Item in, out;
  Pool pool;
  Activation activation = Activation::none;
  Tensor::Form form = Tensor::Form::float32;  // form of the output
  float scale = 1.0f;                         // scale of halves
  bool side_by_side = false;                  // conv_halves: conv/cuda/halves_out.h
  int64_t scratch = 0;                        // floats per item
  int64_t doubt_at = 0, doubt_words = 0;      // for a dense step: start and number of its Doubts, in words per item
  int64_t out_bytes() const {
    return form == Tensor::Form::halves ? 2 * 2 * dense_stride(out.size()) : 4 * out.size();
  }
};

// Whether the table's kernel for a convolution of float32 data can write halves, and in which order. The choice of
// kernel does not depend on the number of items. A tanh is left to the map, because around the branch in a tanh the
// compiler would wait after each wgmma.
HalvesOrder halves_of(const Stage& stage);

// `matrix_units`: whether the device has the mma that dense.h and kernels/conv_pixels/ use (sm_80 and newer).
std::vector<Step> make_route(const Plan& plan, const std::vector<StageWeights>& weights, fops_dtype type,
                             bool matrix_units);

}  // namespace fops
