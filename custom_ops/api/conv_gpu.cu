// The forward pass over device tensors, timed: what MXNet's own GPU context calls.
#include "../core/dispatch.h"
#include "cuda_check.h"

using namespace fops;

namespace {

struct Events {
  cudaEvent_t start = nullptr, stop = nullptr;
  ~Events() {
    if (start != nullptr) FOPS_RELEASE(cudaEventDestroy(start));
    if (stop != nullptr) FOPS_RELEASE(cudaEventDestroy(stop));
  }
};

fops_status forward(const char* kernel, const fops_conv* conv, const void* x, const float* k, float* y, void* stream,
                    const char* layer) noexcept {
  try {
    FOPS_TRY(validate(conv));
    const Variant* variant = nullptr;
    FOPS_TRY(find(FOPS_CUDA, kernel, *conv, &variant));
    const auto on = static_cast<cudaStream_t>(stream);
    Events events;
    FOPS_CUDA(cudaEventCreate(&events.start));
    FOPS_CUDA(cudaEventCreate(&events.stop));
    FOPS_CUDA(cudaEventRecord(events.start, on));
    FOPS_TRY(fops_conv_forward_cuda(variant->name, conv, x, k, y, stream));
    FOPS_CUDA(cudaEventRecord(events.stop, on));
    FOPS_CUDA(cudaEventSynchronize(events.stop));
    float milliseconds = 0;
    FOPS_CUDA(cudaEventElapsedTime(&milliseconds, events.start, events.stop));
    log_op(layer, variant->name, *conv, milliseconds / 1e3, 0, 0);
    return FOPS_OK;
  } catch (...) {
    return caught();
  }
}

}  // namespace

extern "C" fops_status fops_conv_forward_timed(const char* kernel, const fops_conv* conv, const void* x,
                                               const float* k, float* y, void* stream, const char* layer) {
  return finish(forward(kernel, conv, x, k, y, stream, layer));
}
