// Declares the CPU kernels, which table.cpp puts into a table.
#pragma once

#include <algorithm>

#include "base/isa.h"
#include "base/thread_pool.h"
#include "conv/kernel.h"

namespace fops {

fops_status conv_naive(const fops_conv&, const void* x, const float* k, float* y, void*);

// Returns the number of threads to use for a convolution: one for each 100,000 multiply-adds, which take 1.7 microseconds,
// because a further thread takes one microsecond to join.
inline int threads_for(const fops_conv& c) {
  const double work = static_cast<double>(c.B) * c.M * out_h(c) * out_w(c) * c.C * c.K * c.K;
  return static_cast<int>(std::clamp<double>(work / 1e5, 1, pool_threads()));
}

// The kernels of the *_simd.cpp files, compiled once for each instruction set. direct_merges returns whether `direct`
// loads vectors across the ends of rows with masked loads.
#define FOPS_DECLARE(set)                                            \
  namespace set {                                                    \
  Kernel::Run conv_shifted, conv_direct, conv_broadcast, conv_tiles; \
  Kernel::Takes direct_merges;                                       \
  }
FOPS_EACH_ISA(FOPS_DECLARE)
#undef FOPS_DECLARE

}  // namespace fops
