#include "gpu/check.h"

namespace fops {
namespace {
thread_local cudaError_t release_error = cudaSuccess;
thread_local const char* release_of = "";
}  // namespace

void released(cudaError_t error, const char* what) noexcept {
  if (error == cudaSuccess) return;
  cudaGetLastError();
  if (release_error == cudaSuccess) release_error = error, release_of = what;
}

fops_status finish(fops_status status) noexcept {
  const cudaError_t error = release_error;
  release_error = cudaSuccess;
  return status == FOPS_OK && error != cudaSuccess ? cuda_failed(error, release_of) : status;
}

void forget_releases() noexcept { release_error = cudaSuccess; }

fops_status cuda_failed(cudaError_t error, const char* what) noexcept {
  cudaGetLastError();  // clears the error, unless it is sticky, so that launched() does not report it again
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
    case cudaErrorSystemNotReady:
      return fail(FOPS_NO_DEVICE, "the GPUs are not ready yet (%s): start the NVIDIA fabric manager, or wait for it",
                  text);
    case cudaErrorSystemDriverMismatch:
    case cudaErrorCompatNotSupportedOnDevice:
      return fail(
          FOPS_NO_DEVICE,
          "the NVIDIA driver does not fit its own libraries (%s): restart after an update of the driver, and take "
          "CUDA's folder compat out of LD_LIBRARY_PATH",
          text);
    case cudaErrorInvalidDevice:
      return fail(FOPS_NO_DEVICE, "no such CUDA device (%s): choose one that nvidia-smi lists", what);
    case cudaErrorNoKernelImageForDevice:
    case cudaErrorUnsupportedPtxVersion:
      return fail(FOPS_NO_DEVICE,
                  "this library holds no machine code for this GPU (%s): rebuild it with FASHION_OPS_CUDA_ARCHS", text);
    case cudaErrorIllegalAddress:
    case cudaErrorIllegalInstruction:
    case cudaErrorMisalignedAddress:
    case cudaErrorInvalidAddressSpace:
    case cudaErrorInvalidPc:
    case cudaErrorHardwareStackError:
    case cudaErrorLaunchFailure:
    case cudaErrorLaunchTimeout:
    case cudaErrorAssert:
    case cudaErrorECCUncorrectable:
      // These errors are sticky: later CUDA calls in this process, by any library, fail in the same way.
      return fail(FOPS_DEVICE_ERROR,
                  "the GPU is lost to this process: a kernel, of this library or another, failed (CUDA error %d, %s, "
                  "seen in %s): start the process again",
                  static_cast<int>(error), text, what);
    default: return fail(FOPS_DEVICE_ERROR, "CUDA error %d, %s, in %s", static_cast<int>(error), text, what);
  }
}

}  // namespace fops
