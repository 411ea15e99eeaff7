// Registered kernels: those that fops_register_kernel has added to the built-in ones. A plug-in's function runs them.
#pragma once

#include "conv/kernel.h"
#include "fashion_ops_plugin.h"

namespace fops {

// What a registered kernel reports on a call, as in fops_plugin_call. op_seconds is negative if the kernel did not measure
// its time.
struct PluginTimes {
  double op_seconds = 0, layer_seconds = 0;
  uint32_t findings = 0;
};

// The number of a backend's kernels, and the kernel at an index (null if there is none). Built-in kernels come first, then
// registered ones. Kernels are never removed, so the pointers stay valid.
int kernel_count(fops_backend backend);
const Kernel* kernel_at(fops_backend backend, int index);

// As fops_register_kernel and fops_examine (fashion_ops.h).
fops_status register_kernel(const char* name, const fops_kernel_plugin* plugin);
void examine(int asked) noexcept;
int examining() noexcept;    // what was asked last
float unwritten() noexcept;  // what outputs hold before a call

bool takes(const Kernel& kernel, const fops_conv& conv);

const fops_kernel_plugin& described(const Plugin& plugin);

// Calls the plug-in's function run. x, k and y are in the memory that the plug-in needs, and x is float32. Lines that the
// kernel prints on stdout are printed on stderr with the kernel's name, or dropped if `quiet` is true.
fops_status call_plugin(const Kernel& kernel, const fops_conv& conv, const float* x, const float* k, float* y,
                        void* stream, bool quiet, PluginTimes* times);

// Calls the plug-in on host tensors: converts x to float32 if it is uint8, fills y, and calls call_plugin.
fops_status call_on_host(const Kernel& kernel, const fops_conv& conv, const void* x, const float* k, float* y,
                         bool quiet, PluginTimes* times);

// Returns true the first time it is called for a kernel and shape. The kernel's first call for a shape loads code, so it
// should not be measured.
bool first_time(const Kernel& kernel, const fops_conv& conv);

// Returns the number of images that one call should have if `fit` images fit into memory.
int64_t slice_of(const Kernel& kernel, int64_t fit);

}  // namespace fops
