// Step 12's two kernels: 12_tensor_core.cu for one input channel, 12_tensor_core_channels.cu for several.
#pragma once

#include <cuda_runtime.h>

#include "fashion_ops.h"

namespace fops {

bool takes_tensor_core_pixels(const fops_conv&);
bool takes_tensor_core_channels(const fops_conv&);

// `half` leaves out the products that restore float32 grade: step 13.
fops_status run_tensor_core_pixels(const fops_conv&, bool half, const void* x, const float* k, float* y, cudaStream_t);
fops_status run_tensor_core_channels(const fops_conv&, bool half, const void* x, const float* k, float* y,
                                     cudaStream_t);

}  // namespace fops
