// The ladder's steps, for code that means one of them. Everything else finds a kernel by conv/dispatch.h.
#pragma once

#include "conv/kernel.h"
#include "conv/cuda/kernels.h"

namespace fops {

// The table's line of a function of kernels.h.
const Kernel& ladder(Kernel::Run run);

}  // namespace fops
