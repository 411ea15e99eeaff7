// A registered kernel over device tensors.
#pragma once

#include "conv/plugin.h"
#include "gpu/memory.h"

namespace fops {

// Runs one call over device tensors, on `stream`. prepare() queues work that does not belong to the kernel and is not
// timed: it widens pixels, and zeroes y if the format requires that (otherwise, with `poison`, it fills y with NaN).
class CallOnDevice {
 public:
  fops_status prepare(const Kernel& kernel, const fops_conv& conv, const void* x, float* y, void* stream, bool poison);
  fops_status run(const float* k, bool quiet, PluginTimes* times);

 private:
  const Kernel* kernel_ = nullptr;
  fops_conv conv_{};
  const float* x_ = nullptr;
  float* y_ = nullptr;
  void* stream_ = nullptr;
  DeviceMemory wide_;  // releasing this memory waits for the kernel that reads it
};

}  // namespace fops
