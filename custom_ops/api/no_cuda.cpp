// Replaces the GPU part in a build without CUDA: an empty table of kernels, and functions that fail with a message that
// this build has no CUDA.
#ifndef FOPS_WITH_CUDA

#include "base/status.h"
#include "conv/kernel.h"
#include "net/executor.h"

namespace {
fops_status no_cuda() {
  return fops::fail(FOPS_NO_DEVICE,
                    "this build has no CUDA: use the CPU backend, or build it with `make setup BACKEND=gpu`");
}
}  // namespace

namespace fops {

KernelTable gpu_kernels() { return {nullptr, 0, nullptr}; }

fops_status make_gpu_executor(const Plan&, int, const char*, std::unique_ptr<Executor>*) { return no_cuda(); }

}  // namespace fops

extern "C" {

fops_status fops_conv_forward_gpu(const char*, const fops_conv*, const void*, const float*, float*, void*) {
  return no_cuda();
}

fops_status fops_conv_forward_timed(const char*, const fops_conv*, const void*, const float*, float*, void*, int32_t) {
  return no_cuda();
}

fops_status fops_conv_forward_staged(const char*, int, const fops_conv*, const void*, const float*, float*, int32_t) {
  return no_cuda();
}

fops_status fops_device_count(int* count) {
  if (count) *count = 0;
  return no_cuda();
}

fops_status fops_device_describe(int, fops_device_info*) { return no_cuda(); }

}  // extern "C"

#endif  // FOPS_WITH_CUDA
