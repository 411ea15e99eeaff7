// Each launch of the kernel processes as many images as fit into the device's free memory, and is timed as in the
// course: tensors are on the device, and the device is idle before and after. Transfers are cut into chunks, but do not
// overlap with the kernel: for 1.15 GB of output and 0.3 ms of kernel time that would gain nothing.
#include "conv/device/staged.h"

#include <chrono>
#include <memory>

#include "base/log.h"
#include "conv/cuda/dims.h"
#include "conv/device/plugin.h"
#include "gpu/transfers.h"

namespace fops {
namespace {

// Resources of a pass. The memory, declared last, is freed first, which waits for work that a failed pass left on the
// stream.
struct Pass {
  Stream stream;
  Event start, stop;
  DeviceMemory x, k, y;
};

using Clock = std::chrono::steady_clock;
double since(Clock::time_point start) { return std::chrono::duration<double>(Clock::now() - start).count(); }

// Allocates x and y for as many images as fit into the free memory but a tenth and 64 MB, for kernels' workspaces; *slice
// receives the number of images. If an allocation fails for lack of memory, tries half as many.
fops_status allocate(const fops_conv& c, size_t x_bytes, size_t y_bytes, Pass* pass, int64_t* slice) {
  constexpr const char* kWhat = "allocation of a layer's tensors";
  size_t free = 0, total = 0;
  FOPS_CUDA(cudaMemGetInfo(&free, &total));
  const size_t rest = free / 10 + (64 << 20), fit = free > rest ? (free - rest) / (x_bytes + y_bytes) : 0;
  *slice = std::max<int64_t>(1, std::min<int64_t>(c.B, static_cast<int64_t>(fit)));
  for (;; *slice = (*slice + 1) / 2) {
    fops_status status = pass->x.reserve(*slice * x_bytes, kWhat);
    if (status == FOPS_OK) status = pass->y.reserve(*slice * y_bytes, kWhat);
    if (status == FOPS_OK) return FOPS_OK;
    FOPS_TRY(pass->x.release());
    if (status != FOPS_OUT_OF_MEMORY || *slice == 1) return status;
  }
}

fops_status forward(const Kernel& kernel, const fops_conv& c, const void* x, const float* k, float* y, Staging& staging,
                    int32_t node) {
  const size_t x_bytes = (c.x_type == FOPS_UINT8 ? 1 : sizeof(float)) * image_floats(c);
  const size_t y_bytes = sizeof(float) * output_floats(c), k_bytes = sizeof(float) * weight_floats(c);
  Pass pass;
  FOPS_TRY(pass.stream.create());
  FOPS_TRY(pass.start.create(true));
  FOPS_TRY(pass.stop.create(true));
  FOPS_TRY(pass.k.reserve(k_bytes));
  int64_t slice = 0;
  FOPS_TRY(allocate(c, x_bytes, y_bytes, &pass, &slice));
  if (kernel.plugin != nullptr) slice = slice_of(kernel, slice);

  double kernel_s = 0, upload_s = 0, download_s = 0, layer_s = 0;
  uint32_t findings = 0;
  const float* const weights = pass.k.as<float>();
  float* const output = pass.y.as<float>();
  auto began = Clock::now();
  FOPS_TRY(upload(staging, pass.stream, pass.k.as(), k, k_bytes));
  upload_s += since(began);
  for (int64_t b = 0; b < c.B; b += slice) {
    fops_conv part = c;
    part.B = std::min(slice, c.B - b);
    began = Clock::now();
    const char* const images = static_cast<const char*>(x) + b * x_bytes;
    FOPS_TRY(upload(staging, pass.stream, pass.x.as(), images, part.B * x_bytes));
    upload_s += since(began);

    // Calls the kernel once without timing it, because the driver loads a kernel's code at its first launch, which
    // takes some milliseconds. One image is enough for the library's kernels. A registered kernel gets the whole slice,
    // once per shape, because it may keep buffers whose size fits its first call.
    PluginTimes times{-1, 0, 0};
    CallOnDevice call;
    if (kernel.plugin != nullptr) {
      if (first_time(kernel, part)) {
        CallOnDevice first;
        FOPS_TRY(first.prepare(kernel, part, pass.x.as(), output, pass.stream, true));
        FOPS_TRY(first.run(weights, true, &times));
        FOPS_CUDA(cudaStreamSynchronize(pass.stream));
        // Uploads the inputs again, so that wrong outputs of the timed call show if the kernel writes into its inputs.
        FOPS_TRY(upload(staging, pass.stream, pass.k.as(), k, k_bytes));
        FOPS_TRY(upload(staging, pass.stream, pass.x.as(), images, part.B * x_bytes));
      }
      FOPS_TRY(call.prepare(kernel, part, pass.x.as(), output, pass.stream, true));
    } else if (b == 0) {
      fops_conv one = part;
      one.B = 1;
      FOPS_TRY(kernel.run(one, pass.x.as(), weights, output, pass.stream));
      FOPS_CUDA(cudaStreamSynchronize(pass.stream));
    }
    FOPS_CUDA(cudaEventRecord(pass.start, pass.stream));
    if (kernel.plugin != nullptr)
      FOPS_TRY(call.run(weights, false, &times));
    else
      FOPS_TRY(kernel.run(part, pass.x.as(), weights, output, pass.stream));
    FOPS_CUDA(cudaEventRecord(pass.stop, pass.stream));
    FOPS_CUDA(cudaEventSynchronize(pass.stop));
    double seconds = 0;
    FOPS_TRY(add_time(pass.start, pass.stop, &seconds));
    kernel_s += times.op_seconds >= 0 ? times.op_seconds : seconds;
    layer_s += times.layer_seconds;
    findings |= times.findings;

    began = Clock::now();
    FOPS_TRY(download(staging, pass.stream, reinterpret_cast<char*>(y) + b * y_bytes, output, part.B * y_bytes));
    download_s += since(began);
  }
  log_op(node, node, kernel.name, c, kernel_s, upload_s, download_s, layer_s, findings);
  return FOPS_OK;
}

}  // namespace

fops_status run_staged(const Kernel& kernel, int device, const fops_conv& conv, const void* x, const float* k, float* y,
                       int32_t node) {
  std::unique_ptr<Staging> staging;
  FOPS_TRY(take_staging(device, &staging));
  const fops_status status = forward(kernel, conv, x, k, y, *staging, node);
  if (status == FOPS_OK) give_back(device, std::move(staging));  // after a failure a transfer may still use the buffers
  return status;
}

fops_status run_plugin_on_host(const Kernel& kernel, const fops_conv& c, const void* x, const float* k, float* y,
                               int32_t node) {
  const size_t x_bytes = (c.x_type == FOPS_UINT8 ? 1 : sizeof(float)) * image_floats(c);
  size_t free = 0, total = 0;
  FOPS_CUDA(cudaMemGetInfo(&free, &total));
  // The tensors may use half of the free memory. The other half is for further buffers of a user's kernel, such as an
  // unrolled or half-precision copy of the input.
  const size_t image = sizeof(float) * (image_floats(c) + output_floats(c));
  const int64_t fit = std::max<int64_t>(1, static_cast<int64_t>(free / 2 / image));
  const int64_t slice = slice_of(kernel, std::min<int64_t>(c.B, fit));
  PluginTimes sum;
  for (int64_t b = 0; b < c.B; b += slice) {
    fops_conv part = c;
    part.B = std::min(slice, c.B - b);
    const char* data = static_cast<const char*>(x) + b * x_bytes;
    float* output = y + b * output_floats(c);
    PluginTimes times;
    if (first_time(kernel, part)) FOPS_TRY(call_on_host(kernel, part, data, k, output, true, &times));
    const auto began = Clock::now();
    FOPS_TRY(call_on_host(kernel, part, data, k, output, false, &times));
    sum.op_seconds += times.op_seconds >= 0 ? times.op_seconds : since(began);
    sum.layer_seconds += times.layer_seconds;
    sum.findings |= times.findings;
  }
  log_op(node, node, kernel.name, c, sum.op_seconds, 0, 0, sum.layer_seconds, sum.findings);
  return FOPS_OK;
}

}  // namespace fops
