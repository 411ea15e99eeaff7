// The CUDA entry points of a build without CUDA: each says so.
#ifndef FOPS_WITH_CUDA

#include "status.h"
#include "variant.h"

namespace {
fops_status no_cuda() {
  return fops::fail(FOPS_NO_DEVICE,
                    "this build has no CUDA operator: use the CPU backend, or rebuild the library where nvcc is found");
}
}  // namespace

namespace fops {
VariantTable cuda_variants() { return {nullptr, 0, nullptr}; }
}  // namespace fops

extern "C" {

fops_status fops_conv_forward_cuda(const char*, const fops_conv*, const void*, const float*, float*, void*) {
  return no_cuda();
}

fops_status fops_conv_forward_timed(const char*, const fops_conv*, const void*, const float*, float*, void*,
                                    const char*) {
  return no_cuda();
}

fops_status fops_conv_forward_staged(const char*, int, const fops_conv*, const void*, const float*, float*,
                                     const char*) {
  return no_cuda();
}

fops_status fops_cuda_device_count(int* count) {
  if (count) *count = 0;
  return no_cuda();
}

fops_status fops_cuda_device_info(int, fops_device_info*) { return no_cuda(); }

}  // extern "C"

#endif  // FOPS_WITH_CUDA
