// The library's resources on a CUDA device: memory, streams, events and graphs, each released with its owner.
//
// Failed releases: a destructor may not throw and returns nothing, so it records the failure (FOPS_RELEASE). The entry
// point that the destructor ran in ends with finish(status) (gpu/check.h), which reports it unless something failed
// before. Where an entry point returns nothing (fops_network_destroy), the record is dropped (forget_releases), so that
// no later call is blamed. release(), for an owner that needs the memory now, returns its status like any other call.
#pragma once

#include <cstddef>
#include <utility>

#include "gpu/check.h"

namespace fops {

// One handle of the CUDA runtime. `Kind` gives the handle's type and the way to release it.
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
  // Releases the handle now, following the destructor's rule.
  void clear() noexcept {
    if (handle_ != nullptr) released(Kind::release(std::exchange(handle_, nullptr)), Kind::kRelease);
  }

 protected:
  Handle handle_ = nullptr;
};

// Memory that grows and never shrinks; growing discards the contents.
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

  // `what` names the memory's purpose in the message.
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

// Pinned host memory, which the device can copy asynchronously.
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
// A stream that does not wait for the default one.
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
// Adds the seconds between two events to *sum, unless sum is null. Both events must have passed.
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
// The work that a function queues on a stream, stored so that it can be launched again as a whole.
class Graph : public Owned<GraphKind> {
 public:
  // Runs `queue`, a function that returns a status; the work that it queues on `stream` does not run yet. Meanwhile
  // this thread must make no call that a capture forbids.
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
  struct Captured : Owned<CapturedKind> {  // the executable graph holds its own copy
    using Owned<CapturedKind>::handle_;
  };
};

}  // namespace fops
