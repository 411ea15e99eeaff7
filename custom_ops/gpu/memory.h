// Owners of CUDA resources: memory, streams, events and graphs. Their destructors release the resources.
//
// A destructor cannot return a status, so it records a failed release (FOPS_RELEASE). The entry point in which it ran
// ends with finish(status) (gpu/check.h), which reports the failure if `status` is FOPS_OK. An entry point that returns
// nothing (fops_network_destroy) clears the record (forget_releases). Memory::release() releases memory before its
// owner's end, and returns its status directly.
#pragma once

#include <cstddef>
#include <utility>

#include "gpu/check.h"

namespace fops {

// The owner of a handle of the CUDA runtime. `Kind` has the handle's type and the function that releases it.
template <typename Kind>
class Owned {
 public:
  using Handle = typename Kind::Handle;
  Owned() = default;
  Owned(Owned&& other) noexcept : handle_(std::exchange(other.handle_, nullptr)) {}
  Owned& operator=(Owned&& other) noexcept {
    std::swap(handle_, other.handle_);
    return *this;
  }
  ~Owned() { clear(); }

  operator Handle() const { return handle_; }
  // Releases the handle now. A failure is recorded, as in a destructor.
  void clear() noexcept {
    if (handle_ != nullptr) released(Kind::release(std::exchange(handle_, nullptr)), Kind::kRelease);
  }

 protected:
  Handle handle_ = nullptr;
};

// Memory that grows on demand and keeps its size until it is released. Growing discards the contents.
template <typename Kind>
class Memory : private Owned<Kind> {
 public:
  Memory() = default;
  Memory(Memory&& other) noexcept : Owned<Kind>(std::move(other)), bytes_(std::exchange(other.bytes_, 0)) {}
  Memory& operator=(Memory&& other) noexcept {
    Owned<Kind>::operator=(std::move(other));
    std::swap(bytes_, other.bytes_);
    return *this;
  }

  // `what` names the allocation in the message of a failure.
  fops_status reserve(size_t bytes, const char* what = Kind::kAllocate) {
    if (bytes <= bytes_) return FOPS_OK;
    FOPS_TRY(release());
    const cudaError_t error = Kind::allocate(&this->handle_, bytes);
    if (error != cudaSuccess) return this->handle_ = nullptr, cuda_failed(error, what);
    bytes_ = bytes;
    return FOPS_OK;
  }
  fops_status release() noexcept {
    bytes_ = 0;
    if (this->handle_ == nullptr) return FOPS_OK;
    const cudaError_t error = Kind::release(std::exchange(this->handle_, nullptr));
    return error == cudaSuccess ? FOPS_OK : cuda_failed(error, Kind::kRelease);
  }
  size_t bytes() const { return bytes_; }
  template <typename T = void>
  T* as() const {
    return static_cast<T*>(this->handle_);
  }

 private:
  size_t bytes_ = 0;
};

struct DeviceKind {
  using Handle = void*;
  static constexpr const char *kAllocate = "cudaMalloc", *kRelease = "cudaFree";
  static cudaError_t allocate(void** out, size_t bytes) { return cudaMalloc(out, bytes); }
  static cudaError_t release(void* memory) { return cudaFree(memory); }
};
using DeviceMemory = Memory<DeviceKind>;

struct PinnedKind {
  using Handle = void*;
  static constexpr const char *kAllocate = "cudaMallocHost", *kRelease = "cudaFreeHost";
  static cudaError_t allocate(void** out, size_t bytes) { return cudaMallocHost(out, bytes); }
  static cudaError_t release(void* memory) { return cudaFreeHost(memory); }
};
using PinnedMemory = Memory<PinnedKind>;

struct StreamKind {
  using Handle = cudaStream_t;
  static constexpr const char* kRelease = "cudaStreamDestroy";
  static cudaError_t release(Handle stream) { return cudaStreamDestroy(stream); }
};
class Stream : public Owned<StreamKind> {
 public:
  fops_status create() {
    FOPS_CUDA(cudaStreamCreateWithFlags(&handle_, cudaStreamNonBlocking));
    return FOPS_OK;
  }
};

struct EventKind {
  using Handle = cudaEvent_t;
  static constexpr const char* kRelease = "cudaEventDestroy";
  static cudaError_t release(Handle event) { return cudaEventDestroy(event); }
};
class Event : public Owned<EventKind> {
 public:
  fops_status create(bool timing) {
    FOPS_CUDA(cudaEventCreateWithFlags(&handle_, timing ? cudaEventDefault : cudaEventDisableTiming));
    return FOPS_OK;
  }
};
// Adds the seconds between two events to *sum, unless sum is null. Both events must have completed.
inline fops_status add_time(cudaEvent_t start, cudaEvent_t stop, double* sum) {
  if (sum == nullptr) return FOPS_OK;
  float milliseconds = 0.0f;
  FOPS_CUDA(cudaEventElapsedTime(&milliseconds, start, stop));
  *sum += milliseconds / 1e3;
  return FOPS_OK;
}

struct CapturedKind {
  using Handle = cudaGraph_t;
  static constexpr const char* kRelease = "cudaGraphDestroy";
  static cudaError_t release(Handle graph) { return cudaGraphDestroy(graph); }
};
struct GraphKind {
  using Handle = cudaGraphExec_t;
  static constexpr const char* kRelease = "cudaGraphExecDestroy";
  static cudaError_t release(Handle graph) { return cudaGraphExecDestroy(graph); }
};
// An executable CUDA graph of the work that a function queues on a stream.
class Graph : public Owned<GraphKind> {
 public:
  // Captures the work that `queue`, a function that returns a status, queues on `stream`. The work does not run yet.
  // `queue` must not make CUDA calls that are forbidden during a capture, such as cudaMalloc.
  template <typename F>
  fops_status capture(cudaStream_t stream, F queue) {
    clear();
    FOPS_CUDA(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal));
    const fops_status status = queue();
    Captured captured;
    cudaError_t error = cudaStreamEndCapture(stream, &captured.handle_);
    if (status == FOPS_OK && error == cudaSuccess) error = cudaGraphInstantiate(&handle_, captured, 0);
    if (status != FOPS_OK || error != cudaSuccess) clear();
    if (status != FOPS_OK) return status;
    return error == cudaSuccess ? FOPS_OK : cuda_failed(error, "capture of a CUDA graph");
  }

 private:
  struct Captured : Owned<CapturedKind> {  // not needed after the instantiation, which copies it
    using Owned<CapturedKind>::handle_;
  };
};

}  // namespace fops
