// Which CUDA devices this process can use, and what they are.
#include "device.h"

#include <cstdio>

namespace fops {

fops_status DeviceScope::enter(int device) noexcept {
  int count = 0;
  if (const fops_status status = fops_cuda_device_count(&count)) return status;
  if (device < 0 || device >= count)
    return fail(FOPS_NO_DEVICE, "no CUDA device %d: this process sees %d, numbered from 0", device, count);
  FOPS_CUDA(cudaGetDevice(&before_));
  FOPS_CUDA(cudaSetDevice(device));
  return FOPS_OK;
}

}  // namespace fops

using namespace fops;

extern "C" fops_status fops_cuda_device_count(int* count) {
  if (count == nullptr) return fail(FOPS_INVALID, "count is a null pointer");
  *count = 0;
  int found = 0;
  FOPS_CUDA(cudaGetDeviceCount(&found));
  if (found == 0) return cuda_failed(cudaErrorNoDevice, "cudaGetDeviceCount");
  *count = found;
  return FOPS_OK;
}

namespace {

fops_status device_info(int device, fops_device_info* out) noexcept {
  if (out == nullptr) return fail(FOPS_INVALID, "out is a null pointer");
  *out = fops_device_info{};
  DeviceScope scope;
  FOPS_TRY(scope.enter(device));
  cudaDeviceProp properties;
  FOPS_CUDA(cudaGetDeviceProperties(&properties, device));
  snprintf(out->name, sizeof out->name, "%s", properties.name);
  out->major = properties.major;
  out->minor = properties.minor;
  out->multiprocessors = properties.multiProcessorCount;
  FOPS_CUDA(cudaMemGetInfo(&out->memory_free, &out->memory_total));
  FOPS_CUDA(cudaDriverGetVersion(&out->driver_version));
  FOPS_CUDA(cudaRuntimeGetVersion(&out->runtime_version));
  return FOPS_OK;
}

}  // namespace

extern "C" fops_status fops_cuda_device_info(int device, fops_device_info* out) {
  return finish(device_info(device, out));
}
