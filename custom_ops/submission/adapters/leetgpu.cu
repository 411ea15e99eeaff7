// Adapter for LeetGPU's "2D Convolution" on device tensors, of one channel and one filter, without padding:
//   extern "C" void solve(const float* input, const float* kernel, float* output, int input_rows, int input_cols,
//                         int kernel_rows, int kernel_cols)
// The adapter calls it for each filter of each image. Op Time is the time of all these calls and a device synchronise. The
// kernel file is compiled separately and linked to this one.
#include "device.cuh"
#include "solve.h"

namespace fops_adapter {

static int run(fops_plugin_call* call) {
  return run_on_device(call, "solve", [call] {
    const Sizes s(call->conv);
    const size_t image = static_cast<size_t>(s.H) * s.W, filter = static_cast<size_t>(s.K) * s.K;
    const size_t plane = s.outputs() / s.B / s.M;
    for (size_t b = 0; b < static_cast<size_t>(s.B); ++b)
      for (size_t m = 0; m < static_cast<size_t>(s.M); ++m)
        solve(call->x + b * image, call->k + m * filter, call->y + (b * s.M + m) * plane, s.H, s.W, s.K, s.K);
  });
}

static int one_channel(const fops_conv* conv) { return conv->C == 1; }

}  // namespace fops_adapter

FOPS_EXPORT_KERNEL_FOR(FOPS_GPU, 0, 0, 1, fops_adapter::run, "one input channel", fops_adapter::one_channel)
