// Functions and macros shared by all adapters: the clock, the message of a failure, the sizes, and the exported function.
#pragma once

// Standard headers that kernel files include. They are included here first, because a file's macros could change them.
#include <algorithm>
#include <cassert>
#include <chrono>
#include <cmath>
#include <cstdarg>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <iostream>
#include <string>
#include <vector>

#include "fashion_ops_plugin.h"

#ifndef FOPS_FORMAT
#define FOPS_FORMAT "a kernel file"
#endif

namespace fops_adapter {

inline double now() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

inline int fail(fops_plugin_call* call, fops_status status, const char* format, ...) {
  va_list arguments;
  va_start(arguments, format);
  vsnprintf(call->message, sizeof call->message, format, arguments);
  va_end(arguments);
  return status;
}

// The sizes as int, the type that kernel files use. The library has checked that each fits.
struct Sizes {
  int B, M, C, H, W, K;
  explicit Sizes(const fops_conv& c)
      : B(static_cast<int>(c.B)), M(static_cast<int>(c.M)), C(static_cast<int>(c.C)), H(static_cast<int>(c.H)),
        W(static_cast<int>(c.W)), K(static_cast<int>(c.K)) {}
  size_t inputs() const { return static_cast<size_t>(B) * C * H * W; }
  size_t weights() const { return static_cast<size_t>(M) * C * K * K; }
  size_t outputs() const { return static_cast<size_t>(B) * M * (H - K + 1) * (W - K + 1); }
};

// Returns body(). If the file's code throws an exception, such as that of a failed CHECK_EQ, returns a failure with a
// message.
template <typename F>
int guarded(fops_plugin_call* call, F body) {
  try {
    return body();
  } catch (const std::exception& e) {
    return fail(call, FOPS_DEVICE_ERROR, "%s", e.what());
  } catch (...) {
    return fail(call, FOPS_DEVICE_ERROR, "it threw an exception");
  }
}

// Runs a call of a format with one function on host tensors. `forward` calls the file's function, and Op Time is the time of
// that call.
template <void (*forward)(fops_plugin_call*)>
int run_on_host(fops_plugin_call* call) {
  return guarded(call, [call]() -> int {
    const double start = now();
    forward(call);
    call->op_seconds = now() - start;
    return FOPS_OK;
  });
}

}  // namespace fops_adapter

// Defines the function that a plug-in exports. The arguments are the members of fops_kernel_plugin (fashion_ops_plugin.h) of
// the same names; `takes` describes in words what `accepts` checks.
#define FOPS_EXPORT_KERNEL_FOR(backend, host_memory, zero_output, batch_multiple, run, takes, accepts)            \
  extern "C" __attribute__((visibility("default"))) const fops_kernel_plugin* fops_kernel_plugin_main(void) {     \
    static const fops_kernel_plugin plugin = {FOPS_PLUGIN_ABI, backend, host_memory, zero_output, batch_multiple, \
                                              FOPS_FORMAT,     takes,   "",          accepts,     run};           \
    return &plugin;                                                                                               \
  }
#define FOPS_EXPORT_KERNEL(backend, host_memory, zero_output, batch_multiple, run) \
  FOPS_EXPORT_KERNEL_FOR(backend, host_memory, zero_output, batch_multiple, run, "", nullptr)
