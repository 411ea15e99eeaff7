// The C API: one convolution on a CUDA device. There are three functions: over device tensors on the caller's stream; the
// same with a measured time, for MXNet's GPU context; and over host tensors.
#include "base/log.h"
#include "conv/device/plugin.h"
#include "conv/device/staged.h"
#include "conv/dispatch.h"
#include "gpu/device.h"

using namespace fops;

namespace {

// Finds the kernel, and returns run(kernel), on device *device or, if that is null, on this thread's current device.
template <typename F>
fops_status with_kernel(const char* kernel, const int* device, const fops_conv* conv, const void* x, const float* k,
                        const float* y, F run) {
  return finish(guarded([&]() -> fops_status {
    FOPS_TRY(validate(conv));
    if (x == nullptr || k == nullptr || y == nullptr)
      return fail(FOPS_INVALID, "data, weight or output is a null pointer");
    DeviceScope scope;
    if (device != nullptr) FOPS_TRY(scope.enter(*device));
    const Kernel* found = nullptr;
    FOPS_TRY(find(FOPS_GPU, kernel, *conv, &found));
    return run(*found);
  }));
}

}  // namespace

extern "C" {

fops_status fops_conv_forward_gpu(const char* kernel, const fops_conv* conv, const void* x, const float* k, float* y,
                                  void* stream) {
  return with_kernel(kernel, nullptr, conv, x, k, y, [&](const Kernel& found) -> fops_status {
    if (found.plugin == nullptr) return found.run(*conv, x, k, y, stream);
    PluginTimes times;
    CallOnDevice call;
    FOPS_TRY(call.prepare(found, *conv, x, y, stream, false));
    return call.run(k, false, &times);
  });
}

fops_status fops_conv_forward_timed(const char* kernel, const fops_conv* conv, const void* x, const float* k, float* y,
                                    void* stream, int32_t node) {
  return with_kernel(kernel, nullptr, conv, x, k, y, [&](const Kernel& found) -> fops_status {
    const auto on = static_cast<cudaStream_t>(stream);
    Event start, stop;
    FOPS_TRY(start.create(true));
    FOPS_TRY(stop.create(true));
    PluginTimes times{-1, 0, 0};
    CallOnDevice call;
    if (found.plugin != nullptr) FOPS_TRY(call.prepare(found, *conv, x, y, stream, true));
    FOPS_CUDA(cudaEventRecord(start, on));
    FOPS_TRY(found.plugin != nullptr ? call.run(k, false, &times) : found.run(*conv, x, k, y, stream));
    FOPS_CUDA(cudaEventRecord(stop, on));
    FOPS_CUDA(cudaEventSynchronize(stop));
    double seconds = 0.0;
    FOPS_TRY(add_time(start, stop, &seconds));
    if (times.op_seconds >= 0) seconds = times.op_seconds;
    log_op(node, node, found.name, *conv, seconds, 0, 0, times.layer_seconds, times.findings);
    return FOPS_OK;
  });
}

fops_status fops_conv_forward_staged(const char* kernel, int device, const fops_conv* conv, const void* x,
                                     const float* k, float* y, int32_t node) {
  return with_kernel(kernel, &device, conv, x, k, y, [&](const Kernel& found) {
    const bool on_host = found.plugin != nullptr && described(*found.plugin).host_memory;
    return on_host ? run_plugin_on_host(found, *conv, x, k, y, node) : run_staged(found, device, *conv, x, k, y, node);
  });
}

}  // extern "C"
