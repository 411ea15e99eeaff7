// The ladder's steps, for code that needs a particular one. All other code finds a kernel by conv/dispatch.h.
#pragma once

#include "conv/kernel.h"
#include "conv/cuda/kernels.h"

namespace fops {

// The table's row for a function of kernels.h.
const Kernel& ladder(Kernel::Run run);

}  // namespace fops
