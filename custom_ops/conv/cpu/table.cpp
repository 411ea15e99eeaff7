// The table of CPU kernels. To add one: write the file, declare it in kernels.h, add a line here.
#include "base/isa.h"
#include "conv/cpu/kernels.h"

namespace fops {

namespace {

bool any(const fops_conv&) { return true; }

fops_status shifted(const fops_conv& c, const void* x, const float* k, float* y, void* s) {
  switch (isa()) {
    case Isa::avx512: return avx512::conv_shifted(c, x, k, y, s);
    case Isa::avx2: return avx2::conv_shifted(c, x, k, y, s);
    default: return generic::conv_shifted(c, x, k, y, s);
  }
}

fops_status direct(const fops_conv& c, const void* x, const float* k, float* y, void* s) {
  switch (isa()) {
    case Isa::avx512: return avx512::conv_direct(c, x, k, y, s);
    case Isa::avx2: return avx2::conv_direct(c, x, k, y, s);
    default: return generic::conv_direct(c, x, k, y, s);
  }
}

fops_status tiles(const fops_conv& c, const void* x, const float* k, float* y, void* s) {
  switch (isa()) {
    case Isa::avx512: return avx512::conv_tiles(c, x, k, y, s);
    case Isa::avx2: return avx2::conv_tiles(c, x, k, y, s);
    default: return generic::conv_tiles(c, x, k, y, s);
  }
}

const Kernel kKernels[] = {
    {"naive", "seven nested loops, one thread: the definition", "", "float32", any, conv_naive},
    {"shifted", "implicit GEMM over K shifted copies of each image, register-tiled, threaded", "", "float32", any,
     shifted},
    {"direct", "register-tiled over the image where it lies, threaded", "", "float32", any, direct},
    {"tiles", "implicit GEMM on AMX tiles, each float32 in three bfloat16 parts", "", "float32", any, tiles},
};

const Kernel* choose(const fops_conv&) { return &kKernels[1]; }

}  // namespace

KernelTable cpu_kernels() { return {kKernels, static_cast<int>(sizeof kKernels / sizeof *kKernels), choose}; }

}  // namespace fops
