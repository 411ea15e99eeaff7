// Checks a convolution and looks up its kernel, as every entry point does before a kernel runs.
#pragma once

#include "conv/kernel.h"

namespace fops {

// Returns FOPS_OK if every size is positive, K <= min(H, W), no tensor has more than 2^40 elements, and the type is known;
// otherwise FOPS_INVALID, and the message is the reason.
fops_status validate(const fops_conv* conv);

// Returns the backend's table of built-in kernels. kernel_count and kernel_at (conv/plugin.h) include registered kernels.
KernelTable kernels_of(fops_backend backend);

fops_status choose(fops_backend backend, const fops_conv& conv, const Kernel** out);

// Sets *out to `kernel` if it takes this convolution; otherwise returns FOPS_UNSUPPORTED, and the message describes the
// kernel and the convolution.
fops_status take(fops_backend backend, const Kernel& kernel, const fops_conv& conv, const Kernel** out);

// Sets *out to the kernel called `name`, built-in or registered, if it takes this convolution. If the name is "auto", "" or
// NULL, does the same as choose().
fops_status find(fops_backend backend, const char* name, const fops_conv& conv, const Kernel** out);

}  // namespace fops
