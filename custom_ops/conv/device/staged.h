// The forward pass over host tensors: upload through pinned buffers, one kernel, download.
#pragma once

#include "conv/kernel.h"

namespace fops {

// Runs the pass on `device`, which must be current, and waits for its end. Logs the pass in the op-time log under
// `node`.
fops_status run_staged(const Kernel& kernel, int device, const fops_conv& conv, const void* x, const float* k, float* y,
                       int32_t node);

// Runs the pass for a registered kernel that makes its own transfers: the kernel receives host tensors of as many
// images as fit into the device's free memory.
fops_status run_plugin_on_host(const Kernel& kernel, const fops_conv& conv, const void* x, const float* k, float* y,
                               int32_t node);

}  // namespace fops
