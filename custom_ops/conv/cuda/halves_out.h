// A convolution's outputs for a dense layer of the fused mode: scaled and split into halves, which saves writing floats
// and reading them again.
#pragma once

#include <cuda_fp16.h>

#include "fashion_ops.h"

namespace fops {

struct HalvesOut {
  __half *hi, *lo;   // (B, stride) each, on 16-byte boundaries; values after an image's M OH OW are not written
  long long stride;  // from one image to the next, a multiple of 8
  float scale;       // a power of two: an output is (hi + lo) / scale
  bool relu;         // whether a relu follows the sums; it keeps NaN
  bool side_by_side;  // an image is (OH, OW, M), not (M, OH, OW); M is then a multiple of 8
};

// The order in which step 12's kernel for this shape can write halves, on this thread's device: in planes, or a
// position's filters side by side, like the tensor cores' sums. It does not depend on B.
enum class HalvesOrder { none, planes, side_by_side };
HalvesOrder halves_order(const fops_conv&);
// x: float32, of the shape passed to halves_order; k and the stream as in fops_conv_forward_gpu.
fops_status run_to_halves(const fops_conv&, const void* x, const float* k, const HalvesOut& y, void* stream);

}  // namespace fops
