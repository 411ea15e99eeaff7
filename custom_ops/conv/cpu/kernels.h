// The CPU's kernels, as the table in table.cpp lists them.
#pragma once

#include "base/isa.h"
#include "conv/kernel.h"

namespace fops {

fops_status conv_naive(const fops_conv&, const void* x, const float* k, float* y, void*);

// Those of the *_simd.cpp files, compiled once for each instruction set.
#define FOPS_DECLARE(set)                                                                       \
  namespace set {                                                                               \
  fops_status conv_shifted(const fops_conv&, const void* x, const float* k, float* y, void*);   \
  fops_status conv_direct(const fops_conv&, const void* x, const float* k, float* y, void*);    \
  fops_status conv_tiles(const fops_conv&, const void* x, const float* k, float* y, void*);     \
  }
FOPS_EACH_ISA(FOPS_DECLARE)
#undef FOPS_DECLARE

}  // namespace fops
