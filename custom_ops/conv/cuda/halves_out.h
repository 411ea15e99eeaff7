// Lets a convolution write its outputs scaled and split into halves, as a dense layer of the fused mode reads them.
// This saves writing floats and converting them in another kernel.
#pragma once

#include <cuda_fp16.h>

#include "fashion_ops.h"

namespace fops {

struct HalvesOut {
  __half *hi, *lo;    // (B, stride) each, on 16-byte boundaries; values after an image's M OH OW are not written
  long long stride;   // values from one image to the next, a multiple of 8
  float scale;        // a power of two: an output is (hi + lo) / scale
  bool relu;          // whether to apply relu to the outputs; NaN stays NaN
  bool side_by_side;  // whether an image is (OH, OW, M), not (M, OH, OW); M is then a multiple of 8
};

// Returns the order in which the kernel `tensor-core` can write the outputs of this shape as halves, on this thread's
// device: (M, OH, OW) (planes), (OH, OW, M) (side_by_side) or not at all (none). The order does not depend on B.
enum class HalvesOrder { none, planes, side_by_side };
HalvesOrder halves_order(const fops_conv&);
// Runs that kernel for a shape for which halves_order does not return `none`. x is float32; k and `stream` are as in
// fops_conv_forward_gpu.
fops_status run_to_halves(const fops_conv&, const void* x, const float* k, const HalvesOut& y, void* stream);

}  // namespace fops
