// Device memory for one pass, allocated in the order of the pass's stream, and kept in a separate pool between passes.
#pragma once

#include <cstdint>

#include "gpu/check.h"

namespace fops {

// The default pool would return its memory to the driver at every synchronisation, and take 0.1 ms to get it again.
class Workspace {
 public:
  explicit Workspace(cudaStream_t stream) : stream_(stream) {}
  Workspace(const Workspace&) = delete;
  Workspace& operator=(const Workspace&) = delete;
  ~Workspace() {
    if (memory_ != nullptr) released(cudaFreeAsync(memory_, stream_), "cudaFreeAsync");
  }
  fops_status reserve(size_t bytes);
  template <typename T>
  T* as() const {
    return static_cast<T*>(memory_);
  }

 private:
  cudaStream_t stream_;
  void* memory_ = nullptr;
};

}  // namespace fops
