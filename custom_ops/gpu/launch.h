// Helpers for launching kernels: the size of the grid, permission for much shared memory, and early launches.
#pragma once

#include <algorithm>
#include <climits>
#include <utility>

#include "gpu/check.h"
#include "gpu/divide.cuh"

namespace fops {

// Returns the number of blocks for kernels with one task per block: the number of tasks, but at most 2^31 - 1, the limit
// of a grid's x dimension. Kernels that may have more tasks process them in a grid-stride loop.
inline unsigned grid_for(long long tasks) { return static_cast<unsigned>(std::min<long long>(tasks, INT_MAX)); }

inline fops_status device_attribute(cudaDeviceAttr attribute, int* value) {
  int device = 0;
  FOPS_CUDA(cudaGetDevice(&device));
  FOPS_CUDA(cudaDeviceGetAttribute(value, attribute, device));
  return FOPS_OK;
}
inline fops_status count_sms(int* count) { return device_attribute(cudaDevAttrMultiProcessorCount, count); }

// Returns an attribute of this thread's current device, or `otherwise` without a device.
inline int device_attribute_or(cudaDeviceAttr attribute, int otherwise) {
  int device = 0, value = 0;
  if (cudaGetDevice(&device) == cudaSuccess && cudaDeviceGetAttribute(&value, attribute, device) == cudaSuccess)
    return value;
  cudaGetLastError();
  return otherwise;
}

constexpr size_t kEveryGpuShared = 98 * 1024;  // shared memory that a block can have on any GPU from sm_80 on

// Requests permission for a kernel's shared memory, which CUDA requires for more than 48 KB per block. `bytes` is the
// number of dynamic bytes; the kernel's static bytes are added, because they count too. Returns FOPS_UNSUPPORTED, with
// the number of bytes in the message, if the GPU does not have so much (64 KB on sm_75, 99 on sm_86, 227 on sm_90).
// Kernels have less than 16 KB of static shared memory, so nothing is requested for up to 32 KB of dynamic bytes.
template <typename Function>
fops_status allow_shared(Function kernel, size_t bytes) {
  if (bytes <= 32 * 1024) return FOPS_OK;
  cudaFuncAttributes compiled;
  FOPS_CUDA(cudaFuncGetAttributes(&compiled, kernel));
  const size_t all = bytes + compiled.sharedSizeBytes;
  if (all <= 48 * 1024) return FOPS_OK;
  int limit = 0;
  FOPS_TRY(device_attribute(cudaDevAttrMaxSharedMemoryPerBlockOptin, &limit));
  if (all > static_cast<size_t>(limit))
    return fail(FOPS_UNSUPPORTED, "this kernel needs %zu bytes of shared memory a block for this shape, the GPU has %d",
                all, limit);
  FOPS_CUDA(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, static_cast<int>(bytes)));
  return FOPS_OK;
}

// Whether a block may have `bytes` bytes of shared memory on the current device. Without a device, the limit is that of
// sm_90.
inline bool shared_fits(size_t bytes) {
  return bytes <= static_cast<size_t>(device_attribute_or(cudaDevAttrMaxSharedMemoryPerBlockOptin, 227 * 1024));
}

// Whether a kernel with wgmma has code for this thread's current device. On other devices its code is empty, and
// limited to fewer than `threads` threads per block (bound_with_wgmma in gpu/isa/architecture.cuh).
template <typename Function>
bool has_code_here(Function kernel, int threads) {
  cudaFuncAttributes compiled;
  if (cudaFuncGetAttributes(&compiled, kernel) == cudaSuccess) return compiled.maxThreadsPerBlock >= threads;
  cudaGetLastError();
  return false;
}

// Requests permission for a persistent kernel's shared memory (allow_shared), and sets *grid to the number of blocks
// that the device can run at the same time, but at most `tasks`.
template <typename Function>
fops_status resident_grid(Function kernel, int threads, size_t shared, long long tasks, unsigned* grid) {
  int sms = 0, blocks = 0;
  FOPS_TRY(allow_shared(kernel, shared));
  FOPS_TRY(count_sms(&sms));
  FOPS_CUDA(cudaOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, kernel, threads, shared));
  *grid = static_cast<unsigned>(std::min<long long>(tasks, std::max(1, blocks) * 1LL * sms));
  return FOPS_OK;
}

// Launches a kernel that may begin before the previous kernel in the stream has ended (programmatic dependent launch),
// which saves time between the two. The kernel must call wait_for_previous_kernel (gpu/isa/dependents.cuh) before it
// reads what the previous kernel writes, and in any case before it ends. `cluster` is the number of blocks per cluster,
// a divisor of the grid. Code for GPUs before sm_90 is launched without early start and without clusters.
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
