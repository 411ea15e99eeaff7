// Checks and lookups that every entry point does before a kernel runs.
#pragma once

#include "conv/kernel.h"
#include "fashion_ops.h"

namespace fops {

// FOPS_INVALID with the reason unless every size is positive, K <= min(H, W) and the tensors' sizes fit.
fops_status validate(const fops_conv* conv);

// The static table. kernel_count and kernel_at (conv/plugin.h) also cover the registered kernels.
KernelTable kernels_of(fops_backend backend);

// The table's choice for this convolution.
fops_status choose(fops_backend backend, const fops_conv& conv, const Kernel** out);

// `kernel`, if it takes this convolution; else a refusal that names both.
fops_status take(fops_backend backend, const Kernel& kernel, const fops_conv& conv, const Kernel** out);

// The kernel called `name` ("auto", "" and NULL: the table's choice) if it takes this convolution: one of the backend's
// table, or one that was registered.
fops_status find(fops_backend backend, const char* name, const fops_conv& conv, const Kernel** out);

}  // namespace fops
