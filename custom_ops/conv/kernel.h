// A kernel is one implementation of the convolution: its name, a function that says which shapes it takes, and a function
// that runs it on raw pointers. Each backend has one table of kernels (cpu/table.cpp, cuda/table.cu).
#pragma once

#include "fashion_ops.h"

namespace fops {

struct Plugin;  // a registered kernel (conv/plugin.cpp)

inline int64_t out_h(const fops_conv& c) { return c.H - c.K + 1; }
inline int64_t out_w(const fops_conv& c) { return c.W - c.K + 1; }

// Returns f(x), where x is cast to a pointer to the convolution's input type.
template <typename F>
auto with_input(const fops_conv& c, const void* x, F f) {
  return c.x_type == FOPS_UINT8 ? f(static_cast<const uint8_t*>(x)) : f(static_cast<const float*>(x));
}

struct Kernel {
  const char* name;
  const char* summary;
  const char* takes;      // the shapes that it takes, in words, for messages and docs; "" if it takes every shape
  const char* precision;  // "float32", "tf32" or "fp16"
  using Takes = bool(const fops_conv&);
  Takes* accepts;  // whether it takes this shape
  // Runs the pass. The caller has checked the shape with validate() and `accepts`. `stream` is a cudaStream_t on the GPU;
  // the CPU does not use it.
  using Run = fops_status(const fops_conv&, const void* x, const float* k, float* y, void* stream);
  Run* run;
  // Not null for a registered kernel, which conv/plugin.h runs; its `accepts` and `run` are null.
  Plugin* plugin = nullptr;
};

struct KernelTable {
  const Kernel* kernels;
  int count;
  // Returns the kernel with float32 accuracy that is expected to be the fastest for this shape, from measurements.
  const Kernel* (*choose)(const fops_conv&);
};

// Returns the entry of a table whose function is `run`, wherever in the table it is. Used in a constant expression, so that
// the code does not compile if there is no such entry: the search would then leave the table.
template <int N>
constexpr const Kernel& line_of(const Kernel (&kernels)[N], Kernel::Run run) {
  int i = 0;
  while (kernels[i].run != run) ++i;
  return kernels[i];
}

KernelTable cpu_kernels();
KernelTable gpu_kernels();  // empty in a build without CUDA

}  // namespace fops
