// Kernels added by fops_register_kernel: stored beside the static tables, and called through the plug-in's function.
#pragma once

#include "conv/kernel.h"
#include "fashion_ops_plugin.h"

namespace fops {

// A registered kernel's report on a call; seconds are negative if the caller takes the time.
struct PluginTimes {
  double op_seconds = 0, layer_seconds = 0;
  uint32_t findings = 0;
};

// Kernels of a backend, the static table's first. Pointers stay good; the count only grows.
int kernel_count(fops_backend backend);
const Kernel* kernel_at(fops_backend backend, int index);

fops_status register_kernel(const char* name, const fops_kernel_plugin* plugin);
void examine(bool on) noexcept;
bool examining() noexcept;

// Whether the kernel, built-in or registered, takes this convolution.
bool takes(const Kernel& kernel, const fops_conv& conv);

const fops_kernel_plugin& described(const Plugin& plugin);

// The call itself, with the tensors in the memory that the plug-in needs and x as float32. Text that the kernel prints
// to stdout goes to stderr, each line marked with the kernel's name; in a `quiet` call it is dropped.
fops_status call_plugin(const Kernel& kernel, const fops_conv& conv, const float* x, const float* k, float* y,
                        void* stream, bool quiet, PluginTimes* times);

// Calls over host tensors, x of any type: widens pixels, zeroes or poisons y, calls.
fops_status call_on_host(const Kernel& kernel, const fops_conv& conv, const void* x, const float* k, float* y, bool quiet,
                         PluginTimes* times);

// True once per shape of a kernel: its first call there loads code and should not be measured.
bool first_time(const Kernel& kernel, const fops_conv& conv);

// How many images, up to `fit`, one call should have.
int64_t slice_of(const Kernel& kernel, int64_t fit);

}  // namespace fops
