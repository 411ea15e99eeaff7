// A kernel: one implementation of the convolution, with its name, a predicate for the shapes it takes, and a function
// over raw pointers. Each backend keeps one table of them (cpu/table.cpp, cuda/table.cu); adding a kernel is one file
// and one line there.
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
  // Of a registered kernel, whose `accepts` and `run` are null: conv/plugin.h runs it. Null for our own.
  Plugin* plugin = nullptr;
};

struct KernelTable {
  const Kernel* kernels;
  int count;
  // The fastest measured kernel of float32 grade that takes this shape on this machine.
  const Kernel* (*choose)(const fops_conv&);
};

// The line of a table whose function is `run`: by what it is, for a line may be added at any place. As a constant: where
// no line has it, the search leaves the table, and that does not compile.
template <int N>
constexpr const Kernel& line_of(const Kernel (&kernels)[N], Kernel::Run run) {
  int i = 0;
  while (kernels[i].run != run) ++i;
  return kernels[i];
}

KernelTable cpu_kernels();
KernelTable gpu_kernels();  // empty in a build without CUDA

}  // namespace fops
