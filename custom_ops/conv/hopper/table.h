// Functions that conv/cuda/ calls: for the kernel `tensor-core`, for step 13 of the ladder, and for variants by name.
#pragma once

#include <vector>

#include "conv/kernel.h"

namespace fops {
namespace hopper {

std::vector<Kernel> variant_kernels();

// Runs the variant that choose_variant picks. `half`: whether to omit the products with low parts, as step 13
// of the ladder does.
fops_status run_on_tensor_cores(bool half, const fops_conv&, const void* x, const float* k, float* y, void* stream);

// Returns FOPS_UNSUPPORTED unless this thread's device has the matrix instructions of sm_80. `kernel` is the name in
// the message.
fops_status check_tensor_cores(const char* kernel);

}  // namespace hopper

// The kernel `tensor-core`. takes_tensor_core: whether a variant supports this shape on this thread's device.
// run_tensor_core: runs the variant of the highest priority.
bool takes_tensor_core(const fops_conv&);
fops_status run_tensor_core(const fops_conv&, const void* x, const float* k, float* y, void* stream);

}  // namespace fops
