// What a CUDA executor owns: device and pinned memory, streams and events, each freed with its owner.
//
// Destructors drop what their releases return: they may not throw and have nobody to report to; and the usual way for
// one to fail is that the process is ending and the driver went first, when there is nothing left to free.
#pragma once

#include <cstddef>
#include <utility>

#include "gpu/check.h"

namespace fops {

// Grows and never shrinks; growing drops the contents.
class DeviceMemory {
 public:
  DeviceMemory() = default;
  DeviceMemory(DeviceMemory&& other) noexcept { *this = std::move(other); }
  DeviceMemory& operator=(DeviceMemory&& other) noexcept {
    std::swap(data_, other.data_);
    std::swap(bytes_, other.bytes_);
    return *this;
  }
  ~DeviceMemory() { release(); }

  fops_status reserve(size_t bytes) {
    if (bytes <= bytes_) return FOPS_OK;
    FOPS_TRY(release());
    FOPS_CUDA(cudaMalloc(&data_, bytes));
    bytes_ = bytes;
    return FOPS_OK;
  }
  fops_status release() noexcept {
    bytes_ = 0;
    void* const data = std::exchange(data_, nullptr);
    if (data != nullptr) FOPS_CUDA(cudaFree(data));
    return FOPS_OK;
  }
  size_t bytes() const { return bytes_; }
  template <typename T = void>
  T* as() const {
    return static_cast<T*>(data_);
  }

 private:
  void* data_ = nullptr;
  size_t bytes_ = 0;
};

// The same for host memory that the device's copy engines can reach.
class PinnedMemory {
 public:
  PinnedMemory() = default;
  PinnedMemory(const PinnedMemory&) = delete;
  PinnedMemory& operator=(const PinnedMemory&) = delete;
  ~PinnedMemory() { release(); }

  fops_status reserve(size_t bytes) {
    if (bytes <= bytes_) return FOPS_OK;
    FOPS_TRY(release());
    FOPS_CUDA(cudaMallocHost(&data_, bytes));
    bytes_ = bytes;
    return FOPS_OK;
  }
  fops_status release() noexcept {
    bytes_ = 0;
    void* const data = std::exchange(data_, nullptr);
    if (data != nullptr) FOPS_CUDA(cudaFreeHost(data));
    return FOPS_OK;
  }
  char* get() const { return static_cast<char*>(data_); }

 private:
  void* data_ = nullptr;
  size_t bytes_ = 0;
};

class Stream {
 public:
  Stream() = default;
  Stream(const Stream&) = delete;
  Stream& operator=(const Stream&) = delete;
  ~Stream() {
    if (stream_ != nullptr) cudaStreamDestroy(stream_);
  }
  fops_status create() {
    FOPS_CUDA(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking));
    return FOPS_OK;
  }
  operator cudaStream_t() const { return stream_; }

 private:
  cudaStream_t stream_ = nullptr;
};

class Event {
 public:
  Event() = default;
  Event(Event&& other) noexcept { std::swap(event_, other.event_); }
  Event& operator=(const Event&) = delete;
  ~Event() {
    if (event_ != nullptr) cudaEventDestroy(event_);
  }
  fops_status create(bool timing) {
    FOPS_CUDA(cudaEventCreateWithFlags(&event_, timing ? cudaEventDefault : cudaEventDisableTiming));
    return FOPS_OK;
  }
  operator cudaEvent_t() const { return event_; }

 private:
  cudaEvent_t event_ = nullptr;
};

}  // namespace fops
