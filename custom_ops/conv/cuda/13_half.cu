// Step 13: half precision, for users who request it by name: step 12's idea without the products that restore float32
// grade.
//
//   value = high + low      step 12: high x high + low x high + high x low
//                           step 13: high x high
//
// Costs: accuracy. Each operand has an error of up to 2^-11 of its value; step 12 keeps the bound of docs/precision.md.
// Gains: fewer products, which helps only if products are the limit; docs/kernels.md has the times of both steps.
#include "conv/cuda/kernels.h"
#include "conv/hopper/table.h"

namespace fops {

fops_status run_tensor_core_half(const fops_conv& c, const void* x, const float* k, float* y, void* stream) {
  return hopper::run_on_tensor_cores(true, c, x, k, y, stream);
}

}  // namespace fops
