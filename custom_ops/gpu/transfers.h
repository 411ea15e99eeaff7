#pragma once

#include <memory>

#include "gpu/memory.h"

namespace fops {

// Copies like memcpy, but with several threads: one thread copies about 6 GB/s into pinned memory, and the bus
// transfers 50 GB/s.
void copy_host(void* to, const void* from, int64_t bytes);

// Whether this memory is pinned host memory, from which copies run asynchronously and kernels can read at the same
// address. Checks the first and the last byte.
bool is_pinned(const void* memory, int64_t bytes);

// Two pinned buffers, through which tensors are transferred in chunks: while the bus transfers one buffer, the host
// copies between the other and ordinary memory.
struct Staging {
  PinnedMemory buffer[2];
  Event done[2];  // for each buffer: recorded after its last transfer from or to the device
};

// take_staging sets *out to a pair of buffers for `device`: one that give_back has kept or, if there is none, a new
// one. Pairs are kept because pinning 32 MB takes longer than most layers' kernels. After a failure a transfer may
// still use the buffers; then the caller must not give them back.
fops_status take_staging(int device, std::unique_ptr<Staging>* out);
void give_back(int device, std::unique_ptr<Staging> staging);

// Transfer `bytes` bytes of ordinary host memory to or from the device. Both functions return when the transfer is
// complete.
fops_status upload(Staging& staging, cudaStream_t stream, void* device, const void* host, size_t bytes);
fops_status download(Staging& staging, cudaStream_t stream, void* host, const void* device, size_t bytes);

}  // namespace fops
