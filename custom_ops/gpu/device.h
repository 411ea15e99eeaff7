#pragma once

#include "gpu/check.h"

namespace fops {

// Sets *count to the number of devices. If there is none, returns FOPS_NO_DEVICE with the reason as its message.
fops_status count_devices(int* count) noexcept;

// Sets the current device, and restores the previous one at the end of the scope, because the caller may also use CUDA.
class DeviceScope {
 public:
  DeviceScope() = default;
  DeviceScope(const DeviceScope&) = delete;
  DeviceScope& operator=(const DeviceScope&) = delete;
  ~DeviceScope() {
    if (before_ >= 0) FOPS_RELEASE(cudaSetDevice(before_));
  }

  // Makes `device` current. Returns FOPS_NO_DEVICE if there is no device with this number.
  fops_status enter(int device) noexcept;

 private:
  int before_ = -1;
};

}  // namespace fops
