// Step 12's kernels: 12_tensor_core.cu for one input channel, 12_tensor_core_channels.cu for several, and for a few of
// them 12_tensor_core_few_filters.cu, whose shapes are a part of the second's. On Hopper 12_tensor_core_warpgroup.cu
// does most of those.
#pragma once

#include <cuda_runtime.h>

#include "fashion_ops.h"

namespace fops {

bool takes_tensor_core_pixels(const fops_conv&);
bool takes_tensor_core_channels(const fops_conv&);
bool takes_tensor_core_few_filters(const fops_conv&);

// `half` leaves out the products that restore float32 grade: step 13.
fops_status run_tensor_core_pixels(const fops_conv&, bool half, const void* x, const float* k, float* y, cudaStream_t);
fops_status run_tensor_core_channels(const fops_conv&, bool half, const void* x, const float* k, float* y,
                                     cudaStream_t);
fops_status run_tensor_core_few_filters(const fops_conv&, bool half, const void* x, const float* k, float* y,
                                        cudaStream_t);
// The float32 grade of the few filters on Hopper. *taken: whether it ran; not for every shape, nor on another GPU.
fops_status run_tensor_core_warpgroup(const fops_conv&, const void* x, const float* k, float* y, cudaStream_t,
                                      bool* taken);

}  // namespace fops
