#include "conv/device/plugin.h"

#include "conv/cuda/dims.h"

namespace fops {
namespace {

__global__ void widen(const uint8_t* pixels, float* values, int64_t count) {
  for (int64_t i = blockIdx.x * int64_t{blockDim.x} + threadIdx.x; i < count; i += int64_t{gridDim.x} * blockDim.x)
    values[i] = pixels[i];
}

__global__ void fill(float* values, float value, int64_t count) {
  for (int64_t i = blockIdx.x * int64_t{blockDim.x} + threadIdx.x; i < count; i += int64_t{gridDim.x} * blockDim.x)
    values[i] = value;
}

}  // namespace

fops_status CallOnDevice::prepare(const Kernel& kernel, const fops_conv& conv, const void* x, float* y, void* stream,
                                  bool poison) {
  const fops_kernel_plugin& plugin = described(*kernel.plugin);
  const auto on = static_cast<cudaStream_t>(stream);
  if (plugin.host_memory)
    return fail(FOPS_UNSUPPORTED, "kernel '%s' copies by itself: give it host tensors (fops_conv_forward_staged)",
                kernel.name);
  kernel_ = &kernel;
  conv_ = conv;
  x_ = static_cast<const float*>(x);
  y_ = y;
  stream_ = stream;
  if (conv.x_type == FOPS_UINT8) {
    const int64_t count = conv.B * image_floats(conv);
    FOPS_TRY(wide_.reserve(count * sizeof(float), "allocation of pixels as float32"));
    widen<<<1024, 256, 0, on>>>(static_cast<const uint8_t*>(x), wide_.as<float>(), count);
    FOPS_TRY(launched("widening of pixels"));
    x_ = wide_.as<float>();
  }
  if (plugin.zero_output || poison) {
    fill<<<1024, 256, 0, on>>>(y, plugin.zero_output ? 0.f : unwritten(), conv.B * output_floats(conv));
    FOPS_TRY(launched("filling of the output"));
  }
  return FOPS_OK;
}

fops_status CallOnDevice::run(const float* k, bool quiet, PluginTimes* times) {
  return call_plugin(*kernel_, conv_, x_, k, y_, stream_, quiet, times);
}

}  // namespace fops
