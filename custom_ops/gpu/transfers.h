// Transfers between ordinary host memory and a device, through pinned buffers.
#pragma once

#include <memory>

#include "gpu/memory.h"

namespace fops {

// Copies like memcpy, but with several threads: one thread moves about 6 GB/s into pinned memory, and the bus 50 GB/s.
void copy_host(void* to, const void* from, int64_t bytes);

// Whether all of this host memory is pinned, so that asynchronous copies can reach it, and kernels too at the same
// address.
bool is_pinned(const void* memory, int64_t bytes);

// A layer's tensors are transferred in chunks, through two pinned buffers in turn: while one buffer is on the bus, the
// host copies the other.
struct Staging {
  PinnedMemory buffer[2];
  Event done[2];  // for each buffer, its last copy from or to the device
};

// Pinning 32 MB takes longer than most layers' kernels, so buffers are kept for the next pass: one pair per device and
// concurrent caller. After a failure the buffers may be in use, and must be dropped.
fops_status take_staging(int device, std::unique_ptr<Staging>* out);
void give_back(int device, std::unique_ptr<Staging> staging);

// Both functions return when the transfer is complete.
fops_status upload(Staging& staging, cudaStream_t stream, void* device, const void* host, size_t bytes);
fops_status download(Staging& staging, cudaStream_t stream, void* host, const void* device, size_t bytes);

}  // namespace fops
