// Adapter for fa2020 and later on the CPU: conv_forward_cpu over host tensors, in cpu-new-forward.cc. In fa2023 it has one
// more parameter, the stride (-DFOPS_STRIDE).
#include "support.h"

static void fops_forward(fops_plugin_call* fops_call);  // defined after the #include of the file

FOPS_EXPORT_KERNEL(FOPS_CPU, 1, 0, 1, fops_adapter::run_on_host<fops_forward>)

#ifdef FOPS_STRIDE
#define FOPS_MORE , 1
#else
#define FOPS_MORE
#endif
template <typename Function>
static void fops_call_file(Function* file, fops_plugin_call* call) {
  const fops_adapter::Sizes s(call->conv);
  file(call->y, call->x, call->k, s.B, s.M, s.C, s.H, s.W, s.K FOPS_MORE);
}

#include "fops_submission.inc"  // written for each build: it includes the kernel file

static void fops_forward(fops_plugin_call* fops_call) { fops_call_file(conv_forward_cpu, fops_call); }
