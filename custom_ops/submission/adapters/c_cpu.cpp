// Adapter for plain C on host tensors:
//   extern "C" void conv_forward(const float* x, const float* k, float* y, int B, int M, int C, int H, int W, int K)
// The kernel file is compiled separately and linked to this one, so that a .c file is compiled as C.
#include "support.h"

extern "C" void conv_forward(const float* x, const float* k, float* y, int B, int M, int C, int H, int W, int K);

static void fops_forward(fops_plugin_call* call) {
  const fops_adapter::Sizes s(call->conv);
  conv_forward(call->x, call->k, call->y, s.B, s.M, s.C, s.H, s.W, s.K);
}

FOPS_EXPORT_KERNEL(FOPS_CPU, 1, 0, 1, fops_adapter::run_on_host<fops_forward>)
