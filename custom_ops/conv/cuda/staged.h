// The forward pass over host tensors: up through pinned buffers, one kernel, down again.
#pragma once

#include "conv/kernel.h"

namespace fops {

// On `device`, which is the current one. Synchronous; puts the pass into the op-time log under `node`.
fops_status run_staged(const Kernel& kernel, int device, const fops_conv& conv, const void* x, const float* k, float* y,
                       int32_t node);

}  // namespace fops
