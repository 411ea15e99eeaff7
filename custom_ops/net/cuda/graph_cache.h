// The last call of a kind and, from the second such call on, a CUDA graph of the work that the call queues.
//
// Small batches are bound by launches, not by work. Therefore calls with the same arguments are captured into a CUDA
// graph at the second call, and replayed from then on.
#pragma once

#include <cstdint>

#include "fashion_ops.h"
#include "gpu/memory.h"

namespace fops {

constexpr int64_t kGraphItems = 1024;  // batches up to this run as a graph; so do some larger ones (slices.h)

class GraphCache {
 public:
  // `classes`: whether the call requests classes, not scores.
  bool is_for(int64_t n, const void* data, fops_dtype type, const void* out, bool classes = false) const {
    return n_ == n && data_ == data && type_ == type && out_ == out && classes_ == classes;
  }
  void remember(int64_t n, const void* data, fops_dtype type, const void* out, bool classes = false) noexcept {
    clear();
    n_ = n, data_ = data, type_ = type, out_ = out, classes_ = classes;
  }
  // Discards the graph, because a different call came, or memory that the graph uses is about to be freed.
  void clear() noexcept {
    graph_.clear();
    n_ = -1;
  }

  // Launches on `stream` the work that `queue` queues on `capturing`; queue() is called only the first time.
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

// Within a capture, a plain record would only order the graph; an external record is a node that records the time.
inline fops_status record_flags(cudaStream_t stream, unsigned* flags) {
  cudaStreamCaptureStatus status = cudaStreamCaptureStatusNone;
  FOPS_CUDA(cudaStreamIsCapturing(stream, &status));
  *flags = status == cudaStreamCaptureStatusActive ? cudaEventRecordExternal : cudaEventRecordDefault;
  return FOPS_OK;
}

}  // namespace fops
