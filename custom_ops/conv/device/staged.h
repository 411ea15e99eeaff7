// A layer's forward pass with tensors in host memory: upload through pinned buffers, kernel, download.
#pragma once

#include "conv/kernel.h"

namespace fops {

// Runs the pass on `device`, which must be current, and waits for its end. Adds a line with its times to the op-time
// log, under the number `node`.
fops_status run_staged(const Kernel& kernel, int device, const fops_conv& conv, const void* x, const float* k, float* y,
                       int32_t node);

// Runs the pass for a registered kernel that does its own transfers. Each call of the kernel receives host tensors of
// as many images as fit into half of the device's free memory.
fops_status run_plugin_on_host(const Kernel& kernel, const fops_conv& conv, const void* x, const float* k, float* y,
                               int32_t node);

}  // namespace fops
