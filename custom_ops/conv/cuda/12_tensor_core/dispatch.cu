// Step 12: which of its kernels runs a convolution.
//
//   one channel                               pixels.cu
//   2 to 6 channels, 9 to 16 filters, K = 5   warpgroup.cu on Hopper at float32 grade, else few_filters.cu
//   other shapes of several channels          channels.cu
#include "conv/cuda/12_tensor_core/tensor_core.h"
#include "conv/cuda/kernels.h"

namespace fops {

bool takes_tensor_core(const fops_conv& c) { return takes_tensor_core_pixels(c) || takes_tensor_core_channels(c); }

fops_status run_on_tensor_cores(const char* name, bool half, const fops_conv& c, const void* x, const float* k,
                                float* y, void* stream) {
  int device = 0, major = 0;
  FOPS_CUDA(cudaGetDevice(&device));
  FOPS_CUDA(cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, device));
  if (major < 8)
    return fail(FOPS_UNSUPPORTED, "%s needs a GPU of compute capability 8.0 or newer; this one has %d.x", name, major);
  const auto on = static_cast<cudaStream_t>(stream);
  if (c.C == 1) return run_tensor_core_pixels(c, half, x, k, y, on);
  if (!takes_tensor_core_few_filters(c)) return run_tensor_core_channels(c, half, x, k, y, on);
  bool taken = false;  // half: a single product keeps mma.sync from being what limits it (0.204 ms, wgmma 0.205)
  if (!half) FOPS_TRY(run_tensor_core_warpgroup(c, x, k, y, on, &taken));
  return taken ? FOPS_OK : run_tensor_core_few_filters(c, half, x, k, y, on);
}

fops_status run_tensor_core(const fops_conv& c, const void* x, const float* k, float* y, void* stream) {
  return run_on_tensor_cores("tensor-core", false, c, x, k, y, stream);
}

}  // namespace fops
