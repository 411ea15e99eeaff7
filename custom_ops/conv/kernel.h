// A kernel: one implementation of the convolution, with its name, a predicate for the shapes it takes, and a function
// over raw pointers. Each backend has one table of kernels (cpu/table.cpp, cuda/table.cu); adding a kernel takes one
// file and one line there.
#pragma once

#include "fashion_ops.h"

namespace fops {

struct Plugin;  // conv/plugin.h

inline int64_t out_h(const fops_conv& c) { return c.H - c.K + 1; }
inline int64_t out_w(const fops_conv& c) { return c.W - c.K + 1; }

struct Kernel {
  const char* name;
  const char* summary;
  const char* takes;      // the shapes it takes, in words, for messages and docs; "" takes every shape
  const char* precision;  // "float32", "tf32", "fp16"
  bool (*accepts)(const fops_conv&);
  // Runs the pass; the shape has been validated and accepted. `stream` is a cudaStream_t on the GPU, unused on the CPU.
  using Run = fops_status (*)(const fops_conv&, const void* x, const float* k, float* y, void* stream);
  Run run;
  // For a registered kernel, whose `accepts` and `run` are null: conv/plugin.h runs it. Null for built-in kernels.
  Plugin* plugin = nullptr;
};

struct KernelTable {
  const Kernel* kernels;
  int count;
  // The fastest measured kernel of float32 grade that takes this shape on this machine.
  const Kernel* (*choose)(const fops_conv&);
};

// The line of a table whose function is `run`, since lines may be added anywhere. A constant expression: if no line
// matches, the search leaves the table, which does not compile.
template <int N>
constexpr const Kernel& line_of(const Kernel (&kernels)[N], Kernel::Run run) {
  int i = 0;
  while (kernels[i].run != run) ++i;
  return kernels[i];
}

KernelTable cpu_kernels();
KernelTable gpu_kernels();  // empty in a build without CUDA

}  // namespace fops
