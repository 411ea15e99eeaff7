// The C API: the number of CUDA devices, and the description of a device.
#include <cstdio>

#include "gpu/device.h"

using namespace fops;

namespace {

fops_status describe(int device, fops_device_info* out) noexcept {
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

extern "C" {

fops_status fops_device_count(int* count) {
  if (count == nullptr) return fail(FOPS_INVALID, "count is a null pointer");
  return finish(count_devices(count));
}

fops_status fops_device_describe(int device, fops_device_info* out) { return finish(describe(device, out)); }

}  // extern "C"
