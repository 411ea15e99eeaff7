// Kernels that fops_register_kernel added: kept beside the static tables, and called through the plug-in's one function.
#pragma once

#include "conv/kernel.h"
#include "fashion_ops_plugin.h"

namespace fops {

// What a call of a registered kernel says of itself; seconds are negative where the caller takes the time.
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

// Whether the kernel takes this convolution, our own or registered.
bool takes(const Kernel& kernel, const fops_conv& conv);

const fops_kernel_plugin& described(const Plugin& plugin);

// The call itself, with the tensors where the plug-in wants them and x as float32. What the kernel's code prints to stdout
// goes to stderr, each line marked with the kernel's name; a `quiet` call's is dropped.
fops_status call_plugin(const Kernel& kernel, const fops_conv& conv, const float* x, const float* k, float* y,
                        void* stream, bool quiet, PluginTimes* times);

// Over host tensors, x of any type: widens pixels, zeroes or poisons y, calls.
fops_status call_on_host(const Kernel& kernel, const fops_conv& conv, const void* x, const float* k, float* y, bool quiet,
                         PluginTimes* times);

// True once for each shape of a kernel: its first call there loads code and is not the one to measure.
bool first_time(const Kernel& kernel, const fops_conv& conv);

// How many of `fit` images one call should have.
int64_t slice_of(const Kernel& kernel, int64_t fit);

}  // namespace fops
