// The kernels for small batches: all operands of a block are resident in shared memory.
#pragma once

#include "conv/hopper/plan.h"
#include "fashion_ops.h"

namespace fops {
namespace hopper {

// Run a layer, and set *taken to true, if each SM gets at most one block and shared memory suffices; otherwise set
// *taken to false. run_resident is for layers of any_shape.cu with `taps` of 0 or 1; `usual` is the plan for large
// batches. run_image_bands_resident is for layers of image_bands.cu.
fops_status run_resident(const fops_conv& c, const Plan& usual, bool stacked, int sms, const void* x, const float* k,
                         float* y, cudaStream_t stream, bool* taken);
fops_status run_image_bands_resident(const fops_conv& c, const Chunks& chunks, int chain, int sms, const float* x,
                                     const float* k, float* y, cudaStream_t stream, bool* taken);

}  // namespace hopper
}  // namespace fops
