// What conv/cuda/ calls: steps 12 and 13 of the ladder, and the variants by name.
#pragma once

#include <vector>

#include "conv/kernel.h"

namespace fops {
namespace hopper {

// The variants as kernels of the library's table, so that each can be listed and run by name: "tensor-core/NAME".
std::vector<Kernel> variant_kernels();

// Whether some variant takes this shape on this thread's device.
bool takes_on_tensor_cores(const fops_conv&);

// A pass by the variant that choose_variant picks. `half` leaves out the products that restore float32 grade (step 13).
fops_status run_on_tensor_cores(bool half, const fops_conv&, const void* x, const float* k, float* y, void* stream);

}  // namespace hopper
}  // namespace fops
