// The C API: one convolution on the CPU; and, for both backends, the check whether a kernel takes a convolution.
#include <chrono>

#include "base/log.h"
#include "base/status.h"
#include "conv/dispatch.h"
#include "conv/plugin.h"

using namespace fops;

extern "C" {

fops_status fops_conv_check(fops_backend backend, const char* kernel, const fops_conv* conv, const char** chosen) {
  if (fops_status s = validate(conv)) return s;
  const Kernel* found = nullptr;
  if (fops_status s = find(backend, kernel, *conv, &found)) return s;
  if (chosen) *chosen = found->name;
  return FOPS_OK;
}

fops_status fops_conv_forward_cpu(const char* kernel, const fops_conv* conv, const void* x, const float* k, float* y,
                                  int32_t node) {
  return guarded([&]() -> fops_status {
    if (fops_status s = validate(conv)) return s;
    if (!x || !k || !y) return fail(FOPS_INVALID, "data, weight or output is a null pointer");
    const Kernel* found = nullptr;
    if (fops_status s = find(FOPS_CPU, kernel, *conv, &found)) return s;
    PluginTimes times{-1, 0, 0};
    const auto start = std::chrono::steady_clock::now();
    if (fops_status s = found->plugin ? call_on_host(*found, *conv, x, k, y, false, &times)
                                      : found->run(*conv, x, k, y, nullptr))
      return s;
    const std::chrono::duration<double> elapsed = std::chrono::steady_clock::now() - start;
    log_op(node, node, found->name, *conv, times.op_seconds < 0 ? elapsed.count() : times.op_seconds, 0, 0,
           times.layer_seconds, times.findings);
    return FOPS_OK;
  });
}

}  // extern "C"
