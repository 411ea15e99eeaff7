// The CPU's kernels, as the table in table.cpp lists them.
#pragma once

#include "conv/kernel.h"

namespace fops {

fops_status conv_naive(const fops_conv&, const void* x, const float* k, float* y, void*);

// The *_simd.cpp files, compiled once for each instruction set.
namespace generic {
fops_status conv_direct(const fops_conv&, const void* x, const float* k, float* y, void*);
fops_status conv_tiles(const fops_conv&, const void* x, const float* k, float* y, void*);
fops_status conv_shifted(const fops_conv&, const void* x, const float* k, float* y, void*);
}
namespace avx2 {
fops_status conv_direct(const fops_conv&, const void* x, const float* k, float* y, void*);
fops_status conv_tiles(const fops_conv&, const void* x, const float* k, float* y, void*);
fops_status conv_shifted(const fops_conv&, const void* x, const float* k, float* y, void*);
}
namespace avx512 {
fops_status conv_direct(const fops_conv&, const void* x, const float* k, float* y, void*);
fops_status conv_tiles(const fops_conv&, const void* x, const float* k, float* y, void*);
fops_status conv_shifted(const fops_conv&, const void* x, const float* k, float* y, void*);
}

}  // namespace fops
