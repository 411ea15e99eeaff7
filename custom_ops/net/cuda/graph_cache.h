// Remembers the arguments of the last call. The second call in a row with the same arguments is captured into a CUDA
// graph, which that call and the following ones launch.
#pragma once

#include <cstdint>

#include "fashion_ops.h"
#include "gpu/memory.h"

namespace fops {

constexpr int64_t kGraphItems = 1024;  // maximum items of a batch that runs as a graph; slices.h has exceptions

class GraphCache {
 public:
  // Whether these are the arguments of the last call. `classes`: whether the call requests classes, not scores.
  bool is_for(int64_t n, const void* data, fops_dtype type, const void* out, bool classes = false) const {
    return n_ == n && data_ == data && type_ == type && out_ == out && classes_ == classes;
  }
  void remember(int64_t n, const void* data, fops_dtype type, const void* out, bool classes = false) noexcept {
    clear();
    n_ = n, data_ = data, type_ = type, out_ = out, classes_ = classes;
  }
  // Discards the graph. Called when the arguments differ, and before memory that the graph uses is freed.
  void clear() noexcept {
    graph_.clear();
    n_ = -1;
  }

  // Launches on `stream` a graph of the work that `queue` queues on `capturing`. Captures the graph, and calls queue(),
  // only if there is no graph yet.
  template <typename F>
  fops_status replay(cudaStream_t stream, cudaStream_t capturing, F queue) {
    if (graph_ == nullptr) {
      const fops_status status = graph_.capture(capturing, queue);
      if (status != FOPS_OK) return clear(), status;
    }
    FOPS_CUDA(cudaGraphLaunch(graph_, stream));
    return FOPS_OK;
  }

 private:
  Graph graph_;
  int64_t n_ = -1;
  const void* data_ = nullptr;
  fops_dtype type_ = FOPS_FLOAT32;
  const void* out_ = nullptr;
  bool classes_ = false;
};

// Sets *flags to the flags for cudaEventRecordWithFlags on `stream`. During a capture a plain record would only add an
// ordering to the graph; an external record becomes a node that records the time.
inline fops_status record_flags(cudaStream_t stream, unsigned* flags) {
  cudaStreamCaptureStatus status = cudaStreamCaptureStatusNone;
  FOPS_CUDA(cudaStreamIsCapturing(stream, &status));
  *flags = status == cudaStreamCaptureStatusActive ? cudaEventRecordExternal : cudaEventRecordDefault;
  return FOPS_OK;
}

}  // namespace fops
