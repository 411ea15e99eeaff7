// Plain C on device tensors:
//   extern "C" void conv_forward(const float* x, const float* k, float* y, int B, int M, int C, int H, int W, int K)
// with a cudaStream_t at the end (-DFOPS_STREAM) it queues its work there without waiting; without one it may use any
// stream, and is timed as the course did it: the call and a device synchronise. The file is linked to this one.
#include "device.cuh"

#ifdef FOPS_STREAM
#define FOPS_MORE_PARAMETERS , cudaStream_t stream
#define FOPS_MORE , static_cast<cudaStream_t>(call->stream)
#else
#define FOPS_MORE_PARAMETERS
#define FOPS_MORE
#endif

extern "C" void conv_forward(const float* x, const float* k, float* y, int B, int M, int C, int H, int W,
                             int K FOPS_MORE_PARAMETERS);

namespace fops_adapter {

static int run(fops_plugin_call* call) {
  return guarded(call, [call]() -> int {
    const Sizes s(call->conv);
    const Inputs inputs(*call, s);
#ifdef FOPS_STREAM
    const bool wait = call->examine != 0;
#else
    const bool wait = true;
    cudaStreamSynchronize(static_cast<cudaStream_t>(call->stream));
#endif
    cudaGetLastError();
    const double start = now();
    conv_forward(call->x, call->k, call->y, s.B, s.M, s.C, s.H, s.W, s.K FOPS_MORE);
    if (!wait) {
      const cudaError_t error = cudaGetLastError();
      if (error != cudaSuccess) fail(call, FOPS_OK, "CUDA reported after conv_forward: %s", cudaGetErrorString(error));
      call->op_seconds = -1;
      return FOPS_OK;
    }
    const int status = settle(call, "conv_forward");
    call->op_seconds = now() - start;
    if (status == FOPS_OK) call->findings = inputs.findings(s, true);
    return status;
  });
}

}  // namespace fops_adapter

FOPS_EXPORT_KERNEL(FOPS_GPU, 0, 0, 1, fops_adapter::run)
