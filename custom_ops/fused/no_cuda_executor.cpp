// The CUDA executor of a build without CUDA.
#ifndef FOPS_WITH_CUDA

#include "executor.h"
#include "status.h"

namespace fops {

fops_status make_cuda_executor(const Plan&, int, const char*, std::unique_ptr<Executor>*) {
  return fail(FOPS_NO_DEVICE,
              "this build has no CUDA executor: use the CPU backend, or rebuild the library where nvcc is found");
}

}  // namespace fops

#endif  // FOPS_WITH_CUDA
