// Functions that conv/cuda/ calls: the kernel `tensor-core`, step 13 of the ladder, and the variants by name.
#pragma once

#include <vector>

#include "conv/kernel.h"

namespace fops {
namespace hopper {

// The variants as kernels of the library's table, so that each can be listed and run by name: "tensor-core/NAME".
std::vector<Kernel> variant_kernels();

// Runs the variant that choose_variant picks. `half` leaves out the products that restore float32 grade (step 13).
fops_status run_on_tensor_cores(bool half, const fops_conv&, const void* x, const float* k, float* y, void* stream);

// FOPS_UNSUPPORTED unless this thread's device has the matrix instructions of sm_80.
fops_status check_tensor_cores(const char* kernel);

}  // namespace hopper

// The kernel `tensor-core`: whether some variant takes this shape on this thread's device, and a function that runs the
// fastest.
bool takes_tensor_core(const fops_conv&);
fops_status run_tensor_core(const fops_conv&, const void* x, const float* k, float* y, void* stream);

}  // namespace fops
