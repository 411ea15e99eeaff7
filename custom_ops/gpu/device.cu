#include "gpu/device.h"

namespace fops {

fops_status count_devices(int* count) noexcept {
  *count = 0;
  int found = 0;
  FOPS_CUDA(cudaGetDeviceCount(&found));
  if (found == 0) return cuda_failed(cudaErrorNoDevice, "cudaGetDeviceCount");
  *count = found;
  return FOPS_OK;
}

fops_status DeviceScope::enter(int device) noexcept {
  int count = 0;
  FOPS_TRY(count_devices(&count));
  if (device < 0 || device >= count)
    return fail(FOPS_NO_DEVICE, "no CUDA device %d: this process sees %d, numbered from 0", device, count);
  FOPS_CUDA(cudaGetDevice(&before_));
  FOPS_CUDA(cudaSetDevice(device));
  return FOPS_OK;
}

}  // namespace fops
