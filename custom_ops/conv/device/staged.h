// The forward pass over host tensors: upload through pinned buffers, one kernel, download.
#pragma once

#include "conv/kernel.h"

namespace fops {

// Runs on `device`, which must be current. Synchronous; logs the pass in the op-time log under `node`.
fops_status run_staged(const Kernel& kernel, int device, const fops_conv& conv, const void* x, const float* k, float* y,
                       int32_t node);

// The same for a registered kernel that copies by itself: it receives host tensors of as many images at once as the
// device's free memory holds.
fops_status run_plugin_on_host(const Kernel& kernel, const fops_conv& conv, const void* x, const float* k, float* y,
                               int32_t node);

}  // namespace fops
