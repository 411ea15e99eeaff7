// Step 12: which of its kernels runs a convolution.
//
//   one channel                               pixels.cu
//   2 to 6 channels, 9 to 16 filters, K = 5   warpgroup.cu on Hopper at float32 grade, else few_filters.cu
//   other shapes of several channels          channels.cu
#include <cstdlib>

#include "conv/cuda/12_tensor_core/tensor_core.h"
#include "conv/cuda/kernels.h"
#include "conv/cuda/table.h"

namespace fops {
namespace {

enum class Way { pixels, channels, few_filters, warpgroup };

// `major`: of the GPU's compute capability. A single product, `half`, keeps mma.sync from being what limits it
// (0.204 ms, wgmma 0.205).
Way way_for(const fops_conv& c, bool half, int major) {
  if (c.C == 1) return Way::pixels;
  if (!takes_tensor_core_few_filters(c)) return Way::channels;
  return major == 9 && !half && takes_tensor_core_warpgroup(c) ? Way::warpgroup : Way::few_filters;
}

}  // namespace

bool takes_tensor_core(const fops_conv& c) { return takes_tensor_core_pixels(c) || takes_tensor_core_channels(c) || takes_tensor_core_any_shape(c); }

fops_status run_on_tensor_cores(bool half, const fops_conv& c, const void* x, const float* k, float* y, void* stream) {
  int device = 0, major = 0;
  FOPS_CUDA(cudaGetDevice(&device));
  FOPS_CUDA(cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, device));
  if (major < 8)
    return fail(FOPS_UNSUPPORTED, "%s needs a GPU of compute capability 8.0 or newer; this one has %d.x",
                ladder(half ? Ladder::half : Ladder::tensor_core).name, major);
  const auto on = static_cast<cudaStream_t>(stream);
  const bool old = takes_tensor_core_pixels(c) || takes_tensor_core_channels(c);
  if (!old || getenv("FOPS_ANY")) {
    bool taken = false;
    FOPS_TRY(run_tensor_core_any_shape(c, half, x, k, y, on, &taken));
    if (taken) return FOPS_OK;
  }
  switch (way_for(c, half, major)) {
    case Way::pixels: return run_tensor_core_pixels(c, half, x, k, y, on);
    case Way::channels: return run_tensor_core_channels(c, half, x, k, y, on);
    case Way::warpgroup: {
      bool taken = false;  // not by a build without code for sm_90a
      FOPS_TRY(run_tensor_core_warpgroup(c, x, k, y, on, &taken));
      if (taken) return FOPS_OK;
      break;
    }
    case Way::few_filters: break;
  }
  return run_tensor_core_few_filters(c, half, x, k, y, on);
}

fops_status run_tensor_core(const fops_conv& c, const void* x, const float* k, float* y, void* stream) {
  return run_on_tensor_cores(false, c, x, k, y, stream);
}

}  // namespace fops
