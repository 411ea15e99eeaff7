// From a CUDA error to a status and a line for the user.
#include "cuda_check.h"

namespace fops {

fops_status cuda_failed(cudaError_t error, const char* what) noexcept {
  cudaGetLastError();  // an error that is not sticky must not be blamed on the next launch
  const char* text = cudaGetErrorString(error);
  switch (error) {
    case cudaErrorMemoryAllocation:
      return fail(FOPS_OUT_OF_MEMORY, "the CUDA device is out of memory (%s): free some of it or use a smaller batch",
                  what);
    case cudaErrorNoDevice:
    case cudaErrorInitializationError:
    case cudaErrorDevicesUnavailable:
      return fail(FOPS_NO_DEVICE, "no CUDA device can be used (%s): check nvidia-smi and CUDA_VISIBLE_DEVICES", text);
    case cudaErrorInsufficientDriver:
    case cudaErrorStubLibrary:
      return fail(FOPS_NO_DEVICE, "no NVIDIA driver, or one older than CUDA %d.%d, which this library was built with",
                  CUDART_VERSION / 1000, CUDART_VERSION % 1000 / 10);
    case cudaErrorInvalidDevice:
      return fail(FOPS_NO_DEVICE, "no such CUDA device (%s): choose one that nvidia-smi lists", what);
    case cudaErrorNoKernelImageForDevice:
    case cudaErrorUnsupportedPtxVersion:
      return fail(FOPS_NO_DEVICE,
                  "this library holds no machine code for this GPU (%s): rebuild it with FASHION_OPS_CUDA_ARCHS", text);
    default:
      return fail(FOPS_DEVICE_ERROR, "CUDA error %d, %s, in %s", static_cast<int>(error), text, what);
  }
}

}  // namespace fops
