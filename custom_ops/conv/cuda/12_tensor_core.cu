// Step 12: tensor cores at float32 grade. Tensor cores multiply halves, so each float32 is split into two of them:
//
//   value   = high + low                                   two halves, 22 bits or more of the value's 24
//   product = high x high + low x high + high x low        three products of halves, added in float32
//
// A library of kernels does so for every shape: conv/hopper/, where each variant tiles the convolution in its own way.
// Read conv/hopper/variants/pixel_columns.cu first: one channel, weights in registers, pixels exact in half.
// Costs: two to three times the products, a scale for every operand, and a layout that follows the instruction.
// Gains: see docs/kernels.md.
#include "conv/cuda/kernels.h"
#include "conv/hopper/table.h"

namespace fops {

bool takes_tensor_core(const fops_conv& c) { return hopper::takes_on_tensor_cores(c); }

fops_status run_tensor_core(const fops_conv& c, const void* x, const float* k, float* y, void* stream) {
  return hopper::run_on_tensor_cores(false, c, x, k, y, stream);
}

}  // namespace fops
