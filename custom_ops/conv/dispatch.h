// What both backends' entry points do before they run a kernel.
#pragma once

#include "fashion_ops.h"
#include "variant.h"

namespace fops {

// FOPS_INVALID with the reason unless every size is positive, K <= min(H, W) and the tensors' sizes fit.
fops_status validate(const fops_conv* conv);

// The variant called `kernel` ("auto", "" and NULL: the table's choice) if it takes this convolution.
fops_status find(fops_backend backend, const char* kernel, const fops_conv& conv, const Variant** out);

// To be called in a catch (...) block: turns the exception in flight into a status and a message.
fops_status caught() noexcept;

}  // namespace fops
