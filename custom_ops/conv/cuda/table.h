// The ladder's kernels, for code that needs a particular one. Other code finds a kernel through conv/dispatch.h.
#pragma once

#include "conv/kernel.h"
#include "conv/cuda/kernels.h"

namespace fops {

const Kernel& ladder(Kernel::Run run);

}  // namespace fops
