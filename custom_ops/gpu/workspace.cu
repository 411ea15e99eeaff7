// There is one memory pool per device. It is created at its first use and kept for the life of the process.
#include "gpu/workspace.h"

#include <mutex>
#include <vector>

namespace fops {
namespace {

fops_status pool_of(int device, cudaMemPool_t* out) {
  static std::mutex mutex;
  static std::vector<cudaMemPool_t> pools;
  const std::lock_guard<std::mutex> lock(mutex);
  if (pools.size() <= static_cast<size_t>(device)) pools.resize(device + 1);
  if (pools[device] == nullptr) {
    cudaMemPoolProps properties = {};
    properties.allocType = cudaMemAllocationTypePinned;
    properties.location.type = cudaMemLocationTypeDevice;
    properties.location.id = device;
    FOPS_CUDA(cudaMemPoolCreate(&pools[device], &properties));
    uint64_t keep = UINT64_MAX;
    FOPS_CUDA(cudaMemPoolSetAttribute(pools[device], cudaMemPoolAttrReleaseThreshold, &keep));
  }
  *out = pools[device];
  return FOPS_OK;
}

}  // namespace

fops_status Workspace::reserve(size_t bytes) {
  int device = 0;
  cudaMemPool_t pool = nullptr;
  FOPS_CUDA(cudaGetDevice(&device));
  FOPS_TRY(pool_of(device, &pool));
  FOPS_CUDA(cudaMallocFromPoolAsync(&memory_, bytes, pool, stream_));
  return FOPS_OK;
}

}  // namespace fops
