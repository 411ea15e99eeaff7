#pragma once

#include "gpu/check.h"

namespace fops {

// The owner of one allocation. The library has its own pool, because CUDA's default pool returns free memory to the
// driver at each synchronisation, and takes 0.1 ms to get it again.
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
