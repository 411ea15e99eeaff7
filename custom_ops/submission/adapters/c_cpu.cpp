// Plain C on host tensors:
//   extern "C" void conv_forward(const float* x, const float* k, float* y, int B, int M, int C, int H, int W, int K)
// The file is linked to this one, so that a .c file is compiled as C.
#include "support.h"

extern "C" void conv_forward(const float* x, const float* k, float* y, int B, int M, int C, int H, int W, int K);

namespace fops_adapter {

static int run(fops_plugin_call* call) {
  return guarded(call, [call]() -> int {
    const Sizes s(call->conv);
    const double start = now();
    conv_forward(call->x, call->k, call->y, s.B, s.M, s.C, s.H, s.W, s.K);
    call->op_seconds = now() - start;
    return FOPS_OK;
  });
}

}  // namespace fops_adapter

FOPS_EXPORT_KERNEL(FOPS_CPU, 1, 0, 1, fops_adapter::run)
