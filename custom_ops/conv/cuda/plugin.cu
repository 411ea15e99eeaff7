// Registered kernels over device tensors.
#include "conv/cuda/dims.h"
#include "conv/plugin.h"
#include "gpu/check.h"

namespace fops {

namespace {

__global__ void widen(const uint8_t* pixels, float* values, int64_t count) {
  for (int64_t i = blockIdx.x * int64_t{blockDim.x} + threadIdx.x; i < count; i += int64_t{gridDim.x} * blockDim.x)
    values[i] = pixels[i];
}

struct Wide {
  float* data = nullptr;
  ~Wide() {
    if (data != nullptr) FOPS_RELEASE(cudaFree(data));  // waits for the kernel that reads it
  }
};

}  // namespace

fops_status call_on_device(const Kernel& kernel, const fops_conv& conv, const void* x, const float* k, float* y,
                           void* stream, bool poison, bool quiet, PluginTimes* times) {
  const fops_kernel_plugin& plugin = described(*kernel.plugin);
  const auto on = static_cast<cudaStream_t>(stream);
  if (plugin.host_memory)
    return fail(FOPS_UNSUPPORTED, "kernel '%s' copies by itself: give it host tensors (fops_conv_forward_staged)",
                kernel.name);
  Wide wide;
  if (conv.x_type == FOPS_UINT8) {
    const int64_t count = conv.B * image_floats(conv);
    FOPS_CUDA(cudaMalloc(&wide.data, count * sizeof(float)));
    widen<<<1024, 256, 0, on>>>(static_cast<const uint8_t*>(x), wide.data, count);
    FOPS_TRY(launched("widening of pixels"));
  }
  // 0xFF in every byte is a NaN.
  if (plugin.zero_output || poison)
    FOPS_CUDA(cudaMemsetAsync(y, plugin.zero_output ? 0 : 0xFF, conv.B * output_floats(conv) * sizeof(float), on));
  return call_plugin(kernel, conv, wide.data != nullptr ? wide.data : static_cast<const float*>(x), k, y, stream, quiet,
                     times);
}

}  // namespace fops
