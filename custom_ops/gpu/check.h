// CUDA errors become statuses with a one-line message that says what to do. Every CUDA call in this folder is checked:
// most calls use FOPS_CUDA, which returns from the function; calls in destructors, which cannot return a status, use
// FOPS_RELEASE and the entry point's finish().
#pragma once

#include <cuda_runtime.h>

#include "base/status.h"

namespace fops {

// Leaves the message for `error`, clears it from the runtime where it can be cleared, and returns the status.
fops_status cuda_failed(cudaError_t error, const char* what) noexcept;

// Returns the status of the latest launch. `kernel` is its name in the message.
inline fops_status launched(const char* kernel) noexcept {
  const cudaError_t error = cudaGetLastError();
  return error == cudaSuccess ? FOPS_OK : cuda_failed(error, kernel);
}

// Records the first failed release during this thread's call.
void released(cudaError_t error, const char* what) noexcept;

// The last step of an entry point, after its destructors: returns `status` or, if that is FOPS_OK, the status and
// message of a failed release.
fops_status finish(fops_status status) noexcept;

// The last step of an entry point that returns nothing: drops the recorded failure, so that no later call is blamed for
// it.
void forget_releases() noexcept;

}  // namespace fops

#define FOPS_RELEASE(call) ::fops::released((call), #call)

#define FOPS_CUDA(call)                                                           \
  do {                                                                            \
    const cudaError_t fops_error_ = (call);                                       \
    if (fops_error_ != cudaSuccess) return ::fops::cuda_failed(fops_error_, #call); \
  } while (0)

#define FOPS_TRY(call)                                \
  do {                                                \
    const fops_status fops_status_ = (call);          \
    if (fops_status_ != FOPS_OK) return fops_status_; \
  } while (0)
