// Step 13: half precision outright, for those who ask for it by name; and the front door of step 12.
//
// Step 12 without the products that restore float32 accuracy. Where stores were the limit nothing is won: fa2017
// 0.336 ms for 0.339, with an error of 2.8e-4 for 1.7e-7. With several channels a third is: fa2019's second layer 0.816
// ms for 1.183, error 3.0e-4 for 1.3e-6.
#include "kernels.h"
#include "tensor_core.h"

namespace fops {
namespace {

fops_status run(const char* name, bool half, const fops_conv& c, const void* x, const float* k, float* y,
                void* stream) {
  int device = 0, major = 0;
  FOPS_CUDA(cudaGetDevice(&device));
  FOPS_CUDA(cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, device));
  if (major < 8)
    return fail(FOPS_UNSUPPORTED, "%s needs a GPU of compute capability 8.0 or newer; this one has %d.x", name, major);
  const auto on = static_cast<cudaStream_t>(stream);
  return c.C == 1 ? run_tensor_core_pixels(c, half, x, k, y, on) : run_tensor_core_channels(c, half, x, k, y, on);
}

}  // namespace

bool takes_tensor_core(const fops_conv& c) { return takes_tensor_core_pixels(c) || takes_tensor_core_channels(c); }

fops_status run_tensor_core(const fops_conv& c, const void* x, const float* k, float* y, void* stream) {
  return run("tensor-core", false, c, x, k, y, stream);
}

fops_status run_tensor_core_half(const fops_conv& c, const void* x, const float* k, float* y, void* stream) {
  return run("tensor-core-half", true, c, x, k, y, stream);
}

}  // namespace fops
