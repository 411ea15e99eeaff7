// Converts CUDA errors to statuses with one-line messages. Most CUDA calls are checked by FOPS_CUDA, which returns the
// status from the calling function. Destructors cannot return a status: they record a failure by FOPS_RELEASE, and the
// library's entry point reports it by finish().
#pragma once

#include <cuda_runtime.h>

#include "base/status.h"

namespace fops {

// Sets the message for `error`, in which `what` names the failed call, and returns its status. Clears the error from
// the CUDA runtime, unless it is sticky.
fops_status cuda_failed(cudaError_t error, const char* what) noexcept;

// Returns the status of the latest kernel launch. `kernel` is the kernel's name in the message.
inline fops_status launched(const char* kernel) noexcept {
  const cudaError_t error = cudaGetLastError();
  return error == cudaSuccess ? FOPS_OK : cuda_failed(error, kernel);
}

// Records `error`, if it is one, as a failed release, unless this thread has recorded one already. `what` names the
// call.
void released(cudaError_t error, const char* what) noexcept;

// Must be called at the end of an entry point, after its destructors. Returns `status` or, if that is FOPS_OK, the
// status of a recorded failed release, and sets the latter's message. Clears the record.
fops_status finish(fops_status status) noexcept;

// Must be called at the end of an entry point that returns nothing. Clears the record of a failed release, so that a
// later call does not report it.
void forget_releases() noexcept;

}  // namespace fops

#define FOPS_RELEASE(call) ::fops::released((call), #call)

#define FOPS_CUDA(call)                                                             \
  do {                                                                              \
    const cudaError_t fops_error_ = (call);                                         \
    if (fops_error_ != cudaSuccess) return ::fops::cuda_failed(fops_error_, #call); \
  } while (0)

#define FOPS_TRY(call)                                \
  do {                                                \
    const fops_status fops_status_ = (call);          \
    if (fops_status_ != FOPS_OK) return fops_status_; \
  } while (0)
