#include "gpu/transfers.h"

#include <algorithm>
#include <cstring>
#include <mutex>
#include <utility>
#include <vector>

#include "base/thread_pool.h"
#include "gpu/launch.h"

namespace fops {
namespace {

constexpr size_t kChunk = 16 << 20;

// The buffers that are not in use, with their devices. They are never freed, because at the end of the process the
// driver may have shut down before.
struct Idle {
  std::mutex mutex;
  std::vector<std::pair<int, std::unique_ptr<Staging>>> pairs;
};

Idle& idle() {
  static Idle* all = new Idle;
  return *all;
}

}  // namespace

void copy_host(void* to, const void* from, int64_t bytes) {
  constexpr int64_t kPiece = 256 << 10;
  constexpr int kThreads = 8;
  const int64_t pieces = ceil_div(bytes, kPiece);
  parallel_for(pieces, static_cast<int>(std::min<int64_t>(pieces, std::min(kThreads, pool_threads()))),
               [=](int64_t piece, int) {
                 const int64_t at = piece * kPiece;
                 memcpy(static_cast<char*>(to) + at, static_cast<const char*>(from) + at,
                        static_cast<size_t>(std::min(kPiece, bytes - at)));
               });
}

bool is_pinned(const void* memory, int64_t bytes) {
  for (const char* at : {static_cast<const char*>(memory), static_cast<const char*>(memory) + bytes - 1}) {
    cudaPointerAttributes attributes;
    if (cudaPointerGetAttributes(&attributes, at) != cudaSuccess) {
      cudaGetLastError();
      return false;
    }
    if (attributes.type != cudaMemoryTypeHost || attributes.devicePointer != at) return false;
  }
  return true;
}

fops_status take_staging(int device, std::unique_ptr<Staging>* out) {
  {
    const std::lock_guard<std::mutex> lock(idle().mutex);
    auto& pairs = idle().pairs;
    for (auto it = pairs.begin(); it != pairs.end(); ++it)
      if (it->first == device) {
        *out = std::move(it->second);
        pairs.erase(it);
        return FOPS_OK;
      }
  }
  auto staging = std::make_unique<Staging>();
  for (int i = 0; i < 2; ++i) {
    FOPS_TRY(staging->buffer[i].reserve(kChunk));
    FOPS_TRY(staging->done[i].create(false));
  }
  *out = std::move(staging);
  return FOPS_OK;
}

void give_back(int device, std::unique_ptr<Staging> staging) {
  const std::lock_guard<std::mutex> lock(idle().mutex);
  idle().pairs.emplace_back(device, std::move(staging));
}

fops_status upload(Staging& staging, cudaStream_t stream, void* device, const void* host, size_t bytes) {
  for (size_t at = 0, i = 0; at < bytes; at += kChunk, ++i) {
    const size_t n = std::min(kChunk, bytes - at);
    void* const pinned = staging.buffer[i % 2].as();
    FOPS_CUDA(cudaEventSynchronize(staging.done[i % 2]));
    copy_host(pinned, static_cast<const char*>(host) + at, static_cast<int64_t>(n));
    FOPS_CUDA(cudaMemcpyAsync(static_cast<char*>(device) + at, pinned, n, cudaMemcpyHostToDevice, stream));
    FOPS_CUDA(cudaEventRecord(staging.done[i % 2], stream));
  }
  FOPS_CUDA(cudaStreamSynchronize(stream));
  return FOPS_OK;
}

fops_status download(Staging& staging, cudaStream_t stream, void* host, const void* device, size_t bytes) {
  const size_t chunks = (bytes + kChunk - 1) / kChunk;
  for (size_t i = 0; i <= chunks; ++i) {
    if (i < chunks) {
      const size_t n = std::min(kChunk, bytes - i * kChunk);
      FOPS_CUDA(cudaMemcpyAsync(staging.buffer[i % 2].as(), static_cast<const char*>(device) + i * kChunk, n,
                                cudaMemcpyDeviceToHost, stream));
      FOPS_CUDA(cudaEventRecord(staging.done[i % 2], stream));
    }
    if (i > 0) {  // copies the previous chunk to the caller while the bus transfers this one
      const size_t last = i - 1, n = std::min(kChunk, bytes - last * kChunk);
      FOPS_CUDA(cudaEventSynchronize(staging.done[last % 2]));
      copy_host(static_cast<char*>(host) + last * kChunk, staging.buffer[last % 2].as(), static_cast<int64_t>(n));
    }
  }
  return FOPS_OK;
}

}  // namespace fops
