// Runs a registered kernel on tensors in device memory.
#pragma once

#include "conv/plugin.h"
#include "gpu/memory.h"

namespace fops {

// One call of a registered kernel. First prepare() queues work on `stream` that does not belong to the kernel and is
// not timed: it converts uint8 pixels to float32, and sets y to zero if the file's format requires that (otherwise, if
// `poison`, to NaN). Then run() calls the kernel; `quiet` and `times` are as in call_plugin.
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
  DeviceMemory wide_;  // the converted pixels; releasing this memory waits for the kernel that reads it
};

}  // namespace fops
