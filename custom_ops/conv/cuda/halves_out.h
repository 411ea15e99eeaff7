// A convolution's outputs on their way into a dense layer of the fused mode: scaled and split into halves, where floats
// would be written and read once more.
#pragma once

#include <cuda_fp16.h>

#include "fashion_ops.h"

namespace fops {

struct HalvesOut {
  __half *hi, *lo;   // (B, stride) each, on 16-byte boundaries; places behind an image's M OH OW are not written
  long long stride;  // from one image to the next, a multiple of 8
  float scale;       // a power of two: an output is (hi + lo) / scale
  bool relu;         // whether a relu lies behind the sums, which keeps NaN
};

// Whether step 12 has a kernel for this shape that can end so, on this thread's device. It does not depend on B.
bool gives_halves(const fops_conv&);
// x: float32, as gives_halves has seen it; k and the stream as in fops_conv_forward_gpu.
fops_status run_to_halves(const fops_conv&, const void* x, const float* k, const HalvesOut& y, void* stream);

}  // namespace fops
