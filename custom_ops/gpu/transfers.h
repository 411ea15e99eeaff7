// Transfers between ordinary host memory and a device, through pinned buffers.
#pragma once

#include <memory>

#include "gpu/memory.h"

namespace fops {

// memcpy on several threads: one moves some 6 GB/s into pinned memory, the bus 50.
void copy_host(void* to, const void* from, int64_t bytes);

// Whether all of this host memory is pinned, so that asynchronous copies, and kernels under the same address, can reach
// it.
bool is_pinned(const void* memory, int64_t bytes);

// A layer's tensors go in chunks, two pinned buffers in turn: while one is on the bus, the host copies the other.
struct Staging {
  PinnedMemory buffer[2];
  Event done[2];  // the last copy from or to the buffer
};

// Pinning 32 MB takes longer than most layers' kernels, so buffers are kept for the next pass: one pair per device and
// concurrent caller. After a failure they may be in use: drop them.
fops_status take_staging(int device, std::unique_ptr<Staging>* out);
void give_back(int device, std::unique_ptr<Staging> staging);

// Both are synchronous.
fops_status upload(Staging& staging, cudaStream_t stream, void* device, const void* host, size_t bytes);
fops_status download(Staging& staging, cudaStream_t stream, void* host, const void* device, size_t bytes);

}  // namespace fops
