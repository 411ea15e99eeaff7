// A kernel variant: a name, a predicate for the shapes it takes, and a function over raw pointers.
// Each backend keeps one table of them (cpu/table.cpp, cuda/table.cu); adding a variant is one file and one line there.
#pragma once

#include "fashion_ops.h"

namespace fops {

inline int64_t out_h(const fops_conv& c) { return c.H - c.K + 1; }
inline int64_t out_w(const fops_conv& c) { return c.W - c.K + 1; }

struct Variant {
  const char* name;
  const char* summary;
  const char* requires_;   // in words, for messages and docs; "" takes every shape
  const char* precision;   // "float32", "tf32", "float16"
  bool (*accepts)(const fops_conv&);
  // Runs the pass; the shape has been validated and accepted. `stream` is a cudaStream_t on CUDA, unused on the CPU.
  fops_status (*run)(const fops_conv&, const void* x, const float* k, float* y, void* stream);
};

struct VariantTable {
  const Variant* variants;
  int count;
  // The fastest measured variant of float32 grade that takes this shape on this machine.
  const Variant* (*choose)(const fops_conv&);
};

VariantTable cpu_variants();
VariantTable cuda_variants();  // empty in a build without CUDA

}  // namespace fops
