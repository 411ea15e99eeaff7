// Adapter for fa2020: GPUInterface::conv_forward_gpu gets host tensors and copies them itself. Op Time is the time of the
// whole call.
#include "device.cuh"

static void fops_forward(fops_plugin_call* fops_call);  // defined after the #include of the file

namespace fops_adapter {

static int run(fops_plugin_call* call) {
  return guarded(call, [call]() -> int {
    asked = call->examine;
    poison_free_memory(Sizes(call->conv).outputs());
    cudaGetLastError();
    const double start = now();
    fops_forward(call);
    const int status = settle(call, "conv_forward_gpu");
    call->op_seconds = now() - start;
    return status;
  });
}

}  // namespace fops_adapter

FOPS_EXPORT_KERNEL(FOPS_GPU, 1, 0, 1000, fops_adapter::run)

template <typename Gpu>
static void fops_call_file(Gpu& gpu, fops_plugin_call* call) {
  const fops_adapter::Sizes s(call->conv);
  gpu.conv_forward_gpu(call->y, call->x, call->k, s.B, s.M, s.C, s.H, s.W, s.K);
}

#define cudaMalloc fops_adapter::filled_malloc
#include "fops_submission.inc"  // written for each build: it includes the kernel file

static GPUInterface fops_interface;

static void fops_forward(fops_plugin_call* fops_call) { fops_call_file(fops_interface, fops_call); }
