// The ladder's kernels, for code that needs a particular one. Other code finds a kernel through conv/dispatch.h.
#pragma once

#include "conv/kernel.h"
#include "conv/cuda/kernels.h"

namespace fops {

// Returns the table's row with the function `run`, one of those in kernels.h.
const Kernel& ladder(Kernel::Run run);

}  // namespace fops
