// Adapter for plain C on device tensors:
//   extern "C" void conv_forward(const float* x, const float* k, float* y, int B, int M, int C, int H, int W, int K)
// If the function has one more parameter, a cudaStream_t (-DFOPS_STREAM), it queues its work on that stream and does not
// wait. Otherwise it may use any stream, and Op Time is the time of the call and a device synchronise, as the course
// measured it. The kernel file is compiled separately and linked to this one.
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
  const auto forward = [call] {
    const Sizes s(call->conv);
    conv_forward(call->x, call->k, call->y, s.B, s.M, s.C, s.H, s.W, s.K FOPS_MORE);
  };
#ifdef FOPS_STREAM
  if (!(call->examine & FOPS_EXAMINE))
    return guarded(call, [&]() -> int {
      cudaGetLastError();
      forward();
      const cudaError_t error = cudaGetLastError();
      if (error != cudaSuccess) fail(call, FOPS_OK, "CUDA reported after conv_forward: %s", cudaGetErrorString(error));
      call->op_seconds = -1;
      return FOPS_OK;
    });
#endif
  return run_on_device(call, "conv_forward", forward);
}

}  // namespace fops_adapter

FOPS_EXPORT_KERNEL(FOPS_GPU, 0, 0, 1, fops_adapter::run)
