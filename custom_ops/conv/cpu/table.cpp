// The table of CPU kernels. To add one: write the file, declare it in kernels.h, add a line here.
#include "base/isa.h"
#include "conv/cpu/kernels.h"

namespace fops {

namespace {

bool any(const fops_conv&) { return true; }

fops_status shifted(const fops_conv& c, const void* x, const float* k, float* y, void* s) {
#define FOPS_ADDRESS(set) set::conv_shifted,
  static constexpr decltype(&conv_naive) each[] = {FOPS_EACH_ISA(FOPS_ADDRESS)};
#undef FOPS_ADDRESS
  return each[static_cast<int>(isa())](c, x, k, y, s);
}

const Kernel kKernels[] = {
    {"naive", "seven nested loops, one thread: the definition", "", "float32", any, conv_naive},
    {"shifted", "implicit GEMM over K shifted copies of each image, register-tiled, threaded", "", "float32", any,
     shifted},
};

const Kernel* choose(const fops_conv&) { return &kKernels[1]; }

}  // namespace

KernelTable cpu_kernels() { return {kKernels, static_cast<int>(sizeof kKernels / sizeof *kKernels), choose}; }

}  // namespace fops
