// Transfers between ordinary host memory and a device, through pinned buffers.
//
// They go in chunks, two pinned buffers in turn: while one is on the bus, the host copies the other.
#pragma once

#include <memory>

#include "gpu/check.h"

namespace fops {

// Two pinned buffers and what orders their use.
struct Staging {
  struct PinnedFree {
    void operator()(char* p) const { FOPS_RELEASE(cudaFreeHost(p)); }
  };
  std::unique_ptr<char, PinnedFree> buffer[2];
  cudaEvent_t done[2] = {};
  ~Staging() {
    for (cudaEvent_t event : done)
      if (event != nullptr) FOPS_RELEASE(cudaEventDestroy(event));
  }
};

// Pinning 32 MB takes longer than most layers' kernels, so buffers are kept for the next pass: one pair a device and
// concurrent caller. After a failure they may be in use: let them go.
fops_status take_staging(int device, std::unique_ptr<Staging>* out);
void give_back(int device, std::unique_ptr<Staging> staging);

// Both are synchronous.
fops_status upload(Staging& staging, cudaStream_t stream, void* device, const void* host, size_t bytes);
fops_status download(Staging& staging, cudaStream_t stream, void* host, const void* device, size_t bytes);

}  // namespace fops
