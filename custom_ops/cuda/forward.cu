// The forward pass over device tensors, on the caller's stream.
#include "../core/dispatch.h"
#include "cuda_check.h"

using namespace fops;

extern "C" fops_status fops_conv_forward_cuda(const char* kernel, const fops_conv* conv, const void* x, const float* k,
                                              float* y, void* stream) {
  try {
    FOPS_TRY(validate(conv));
    if (x == nullptr || k == nullptr || y == nullptr)
      return fail(FOPS_INVALID, "data, weight or output is a null pointer");
    const Variant* variant = nullptr;
    FOPS_TRY(find(FOPS_CUDA, kernel, *conv, &variant));
    return variant->run(*conv, x, k, y, stream);
  } catch (...) {
    return caught();
  }
}
