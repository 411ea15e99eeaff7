// Helpers that every kernel file needs to launch: the grid, and permission for its shared memory.
#pragma once

#include <algorithm>
#include <climits>
#include <cstdint>
#include <utility>

#include "gpu/check.h"
#include "gpu/divide.cuh"

namespace fops {

// The x side of a grid is limited to 2^31 - 1 blocks. Every kernel strides over its tasks, so that a shorter grid is
// still correct.
inline unsigned grid_for(long long tasks) { return static_cast<unsigned>(std::min<long long>(tasks, INT_MAX)); }

// More than 48 KB of shared memory must be requested, and a GPU may have less (64 KB on sm_75, 99 on sm_86, 227 on
// sm_90): the message then names the need. A kernel's static shared memory counts in both cases: 49,152 dynamic and 100
// static bytes without a request fail with "invalid argument". `bytes` is the number of dynamic bytes. No kernel has 16
// KB of static shared memory, so less than 32 KB needs no request.
template <typename Function>
fops_status allow_shared(Function kernel, size_t bytes) {
  if (bytes <= 32 * 1024) return FOPS_OK;
  cudaFuncAttributes compiled;
  FOPS_CUDA(cudaFuncGetAttributes(&compiled, kernel));
  const size_t all = bytes + compiled.sharedSizeBytes;
  if (all <= 48 * 1024) return FOPS_OK;
  int device = 0, limit = 0;
  FOPS_CUDA(cudaGetDevice(&device));
  FOPS_CUDA(cudaDeviceGetAttribute(&limit, cudaDevAttrMaxSharedMemoryPerBlockOptin, device));
  if (all > static_cast<size_t>(limit))
    return fail(FOPS_UNSUPPORTED, "this kernel needs %zu bytes of shared memory a block for this shape, the GPU has %d",
                all, limit);
  FOPS_CUDA(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, static_cast<int>(bytes)));
  return FOPS_OK;
}

// Whether a block may have `bytes` bytes of shared memory on the current device or, if there is no device, on a current
// GPU.
inline bool shared_fits(size_t bytes) {
  int device = 0, limit = 0;
  if (cudaGetDevice(&device) != cudaSuccess ||
      cudaDeviceGetAttribute(&limit, cudaDevAttrMaxSharedMemoryPerBlockOptin, device) != cudaSuccess) {
    cudaGetLastError();
    limit = 227 * 1024;
  }
  return bytes <= static_cast<size_t>(limit);
}

// Whether a kernel with wgmma has code for this thread's device: an empty kernel is bound to fewer threads per block
// (bound_with_wgmma, gpu/isa/architecture.cuh).
template <typename Function>
bool has_code_here(Function kernel, int threads) {
  cudaFuncAttributes compiled;
  if (cudaFuncGetAttributes(&compiled, kernel) == cudaSuccess) return compiled.maxThreadsPerBlock >= threads;
  cudaGetLastError();
  return false;
}

// The number of SMs of this thread's device.
inline fops_status count_sms(int* count) {
  int device = 0;
  FOPS_CUDA(cudaGetDevice(&device));
  FOPS_CUDA(cudaDeviceGetAttribute(count, cudaDevAttrMultiProcessorCount, device));
  return FOPS_OK;
}

// As many blocks as the device can run at the same time, for kernels whose blocks stay and process several tasks.
template <typename Function>
fops_status resident_grid(Function kernel, int threads, size_t shared, long long tasks, unsigned* grid) {
  int sms = 0, blocks = 0;
  FOPS_TRY(count_sms(&sms));
  FOPS_CUDA(cudaOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, kernel, threads, shared));
  *grid = static_cast<unsigned>(std::min<long long>(tasks, std::max(1, blocks) * 1LL * sms));
  return FOPS_OK;
}

// Launches a kernel that begins before the previous kernel in the stream has ended, if the kernel's code is for GPUs
// that can do so (sm_90). The kernel must call wait_for_previous_kernel (gpu/isa/dependents.cuh) before it reads what
// the previous kernel writes, and before it ends. Two successive launches then take less time. `cluster` blocks, a
// divisor of the grid, run at the same time (sm_90).
template <typename... Parameters, typename... Arguments>
fops_status launch_early(void (*kernel)(Parameters...), unsigned grid, unsigned cluster, int threads, size_t shared,
                         cudaStream_t stream, Arguments&&... arguments) {
  cudaFuncAttributes compiled;
  FOPS_CUDA(cudaFuncGetAttributes(&compiled, kernel));
  cudaLaunchAttribute attributes[2] = {};
  attributes[0].id = cudaLaunchAttributeProgrammaticStreamSerialization;
  attributes[0].val.programmaticStreamSerializationAllowed = 1;
  attributes[1].id = cudaLaunchAttributeClusterDimension;
  attributes[1].val.clusterDim.x = cluster, attributes[1].val.clusterDim.y = attributes[1].val.clusterDim.z = 1;
  cudaLaunchConfig_t config = {};
  config.gridDim = grid, config.blockDim = threads, config.dynamicSmemBytes = shared, config.stream = stream;
  config.attrs = attributes, config.numAttrs = compiled.ptxVersion < 90 ? 0 : cluster > 1 ? 2 : 1;
  FOPS_CUDA(cudaLaunchKernelEx(&config, kernel, std::forward<Arguments>(arguments)...));
  return FOPS_OK;
}

}  // namespace fops
