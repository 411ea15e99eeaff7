// Which CUDA devices this process can use, and which one is current.
#pragma once

#include "gpu/check.h"

namespace fops {

// Counts the devices. Without a device, returns FOPS_NO_DEVICE with *count = 0 and the reason.
fops_status count_devices(int* count) noexcept;

// Sets the current device for a scope and restores it afterwards: a caller's own CUDA code keeps the device it chose.
class DeviceScope {
 public:
  DeviceScope() = default;
  DeviceScope(const DeviceScope&) = delete;
  DeviceScope& operator=(const DeviceScope&) = delete;
  ~DeviceScope() {
    if (before_ >= 0) FOPS_RELEASE(cudaSetDevice(before_));
  }

  // Makes `device` current. FOPS_NO_DEVICE if there is no device with this number.
  fops_status enter(int device) noexcept;

 private:
  int before_ = -1;
};

}  // namespace fops
