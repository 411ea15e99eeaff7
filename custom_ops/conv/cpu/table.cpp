// The table of CPU variants. To add one: write the file, declare it in cpu_kernels.h, add a line here.
#include "cpu_kernels.h"
#include "isa.h"

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

const Variant kVariants[] = {
    {"naive", "seven nested loops, one thread: the definition", "", "float32", any, conv_naive},
    {"shifted", "implicit GEMM over K shifted copies of each image, register-tiled, threaded", "", "float32", any,
     shifted},
};

const Variant* choose(const fops_conv&) { return &kVariants[1]; }

}  // namespace

VariantTable cpu_variants() { return {kVariants, static_cast<int>(sizeof kVariants / sizeof *kVariants), choose}; }

}  // namespace fops
