// The forward pass over host tensors: up through pinned buffers, one kernel, down again.
//
// The kernel runs over as many images at once as the device's free memory holds, so that its time is the one that the
// course measured: tensors on the device, device synchronised before and after. Only the transfers go in chunks, two
// pinned buffers in turn: while one is on the bus, the host copies the other. At 1.15 GB of output against 0.3 ms of
// kernel there is nothing to win by overlapping the kernel too.
#include <chrono>
#include <cstring>
#include <memory>
#include <mutex>
#include <vector>

#include "../core/dispatch.h"
#include "device.h"
#include "launch.h"

namespace fops {
namespace {

constexpr size_t kChunk = 16 << 20;

struct PinnedFree {
  void operator()(char* p) const { FOPS_RELEASE(cudaFreeHost(p)); }
};

// Two pinned buffers and what orders their use.
struct Stage {
  std::unique_ptr<char, PinnedFree> buffer[2];
  cudaEvent_t done[2] = {};
  ~Stage() {
    for (cudaEvent_t event : done)
      if (event != nullptr) FOPS_RELEASE(cudaEventDestroy(event));
  }
};

// Pinning 32 MB takes longer than most layers' kernels, so stages are kept for the next pass: one a device and
// concurrent caller. They are left to the end of the process, when the driver may already be gone.
struct Stages {
  std::mutex mutex;
  std::vector<std::pair<int, std::unique_ptr<Stage>>> idle;
};

Stages& stages() {
  static Stages* all = new Stages;
  return *all;
}

fops_status take_stage(int device, std::unique_ptr<Stage>* out) {
  {
    const std::lock_guard<std::mutex> lock(stages().mutex);
    auto& idle = stages().idle;
    for (auto it = idle.begin(); it != idle.end(); ++it)
      if (it->first == device) {
        *out = std::move(it->second);
        idle.erase(it);
        return FOPS_OK;
      }
  }
  auto stage = std::make_unique<Stage>();
  for (int i = 0; i < 2; ++i) {
    void* pinned = nullptr;
    FOPS_CUDA(cudaMallocHost(&pinned, kChunk));
    stage->buffer[i].reset(static_cast<char*>(pinned));
    FOPS_CUDA(cudaEventCreateWithFlags(&stage->done[i], cudaEventDisableTiming));
  }
  *out = std::move(stage);
  return FOPS_OK;
}

void give_back(int device, std::unique_ptr<Stage> stage) {
  const std::lock_guard<std::mutex> lock(stages().mutex);
  stages().idle.emplace_back(device, std::move(stage));
}

// A stream and two timing events, released with the scope; device memory of the pass, likewise.
struct Pass {
  cudaStream_t stream = nullptr;
  cudaEvent_t start = nullptr, stop = nullptr;
  void *x = nullptr, *k = nullptr, *y = nullptr;
  ~Pass() {
    for (void* p : {x, k, y})
      if (p != nullptr) FOPS_RELEASE(cudaFree(p));
    if (start != nullptr) FOPS_RELEASE(cudaEventDestroy(start));
    if (stop != nullptr) FOPS_RELEASE(cudaEventDestroy(stop));
    if (stream != nullptr) FOPS_RELEASE(cudaStreamDestroy(stream));
  }
};

fops_status upload(Stage& stage, cudaStream_t stream, void* device, const void* host, size_t bytes) {
  for (size_t at = 0, i = 0; at < bytes; at += kChunk, ++i) {
    const size_t n = std::min(kChunk, bytes - at);
    char* pinned = stage.buffer[i % 2].get();
    FOPS_CUDA(cudaEventSynchronize(stage.done[i % 2]));
    memcpy(pinned, static_cast<const char*>(host) + at, n);
    FOPS_CUDA(cudaMemcpyAsync(static_cast<char*>(device) + at, pinned, n, cudaMemcpyHostToDevice, stream));
    FOPS_CUDA(cudaEventRecord(stage.done[i % 2], stream));
  }
  FOPS_CUDA(cudaStreamSynchronize(stream));
  return FOPS_OK;
}

fops_status download(Stage& stage, cudaStream_t stream, void* host, const void* device, size_t bytes) {
  const size_t chunks = (bytes + kChunk - 1) / kChunk;
  for (size_t i = 0; i <= chunks; ++i) {
    if (i < chunks) {
      const size_t n = std::min(kChunk, bytes - i * kChunk);
      FOPS_CUDA(cudaMemcpyAsync(stage.buffer[i % 2].get(), static_cast<const char*>(device) + i * kChunk, n,
                                cudaMemcpyDeviceToHost, stream));
      FOPS_CUDA(cudaEventRecord(stage.done[i % 2], stream));
    }
    if (i > 0) {  // the chunk before, while this one is on the bus
      const size_t last = i - 1, n = std::min(kChunk, bytes - last * kChunk);
      FOPS_CUDA(cudaEventSynchronize(stage.done[last % 2]));
      memcpy(static_cast<char*>(host) + last * kChunk, stage.buffer[last % 2].get(), n);
    }
  }
  return FOPS_OK;
}

using Clock = std::chrono::steady_clock;
double since(Clock::time_point start) { return std::chrono::duration<double>(Clock::now() - start).count(); }

// Allocates for as many images as fit: nine tenths of the free memory (im2col-gemm wants a workspace as well), and
// half as many as often as another process was quicker.
fops_status allocate(const fops_conv& c, size_t x_bytes, size_t y_bytes, Pass* pass, int64_t* slice) {
  size_t free = 0, total = 0;
  FOPS_CUDA(cudaMemGetInfo(&free, &total));
  const size_t fit = static_cast<size_t>(0.9 * static_cast<double>(free)) / (x_bytes + y_bytes);
  *slice = std::max<int64_t>(1, std::min<int64_t>(c.B, static_cast<int64_t>(fit)));
  for (;; *slice = (*slice + 1) / 2) {
    cudaError_t error = cudaMalloc(&pass->x, *slice * x_bytes);
    if (error == cudaSuccess) error = cudaMalloc(&pass->y, *slice * y_bytes);
    if (error == cudaSuccess) return FOPS_OK;
    if (pass->x != nullptr) FOPS_CUDA(cudaFree(pass->x));
    pass->x = pass->y = nullptr;
    if (error != cudaErrorMemoryAllocation || *slice == 1) return cuda_failed(error, "allocation of a layer's tensors");
    cudaGetLastError();
  }
}

fops_status forward(const Variant& variant, const fops_conv& c, const void* x, const float* k, float* y, Stage& stage,
                    const char* layer) {
  const size_t x_bytes = (c.x_type == FOPS_UINT8 ? 1 : sizeof(float)) * image_floats(c);
  const size_t y_bytes = sizeof(float) * output_floats(c), k_bytes = sizeof(float) * weight_floats(c);
  Pass pass;
  FOPS_CUDA(cudaStreamCreateWithFlags(&pass.stream, cudaStreamNonBlocking));
  FOPS_CUDA(cudaEventCreate(&pass.start));
  FOPS_CUDA(cudaEventCreate(&pass.stop));
  FOPS_CUDA(cudaMalloc(&pass.k, k_bytes));
  int64_t slice = 0;
  FOPS_TRY(allocate(c, x_bytes, y_bytes, &pass, &slice));

  double kernel_s = 0, upload_s = 0, download_s = 0;
  const auto weights = static_cast<const float*>(pass.k);
  const auto output = static_cast<float*>(pass.y);
  auto began = Clock::now();
  FOPS_TRY(upload(stage, pass.stream, pass.k, k, k_bytes));
  upload_s += since(began);
  for (int64_t b = 0; b < c.B; b += slice) {
    fops_conv part = c;
    part.B = std::min(slice, c.B - b);
    began = Clock::now();
    FOPS_TRY(upload(stage, pass.stream, pass.x, static_cast<const char*>(x) + b * x_bytes, part.B * x_bytes));
    upload_s += since(began);

    if (b == 0) {  // one image unmeasured: the driver loads a kernel's code at its first launch, some milliseconds
      fops_conv one = part;
      one.B = 1;
      FOPS_TRY(variant.run(one, pass.x, weights, output, pass.stream));
      FOPS_CUDA(cudaStreamSynchronize(pass.stream));
    }
    FOPS_CUDA(cudaEventRecord(pass.start, pass.stream));
    FOPS_TRY(variant.run(part, pass.x, weights, output, pass.stream));
    FOPS_CUDA(cudaEventRecord(pass.stop, pass.stream));
    FOPS_CUDA(cudaEventSynchronize(pass.stop));
    float milliseconds = 0;
    FOPS_CUDA(cudaEventElapsedTime(&milliseconds, pass.start, pass.stop));
    kernel_s += milliseconds / 1e3;

    began = Clock::now();
    FOPS_TRY(download(stage, pass.stream, reinterpret_cast<char*>(y) + b * y_bytes, output, part.B * y_bytes));
    download_s += since(began);
  }
  log_op(layer, variant.name, c, kernel_s, upload_s, download_s);
  return FOPS_OK;
}

fops_status forward_staged(const char* kernel, int device, const fops_conv* conv, const void* x, const float* k,
                           float* y, const char* layer) noexcept {
  try {
    FOPS_TRY(validate(conv));
    if (x == nullptr || k == nullptr || y == nullptr)
      return fail(FOPS_INVALID, "data, weight or output is a null pointer");
    DeviceScope scope;
    FOPS_TRY(scope.enter(device));
    const Variant* variant = nullptr;
    FOPS_TRY(find(FOPS_CUDA, kernel, *conv, &variant));
    std::unique_ptr<Stage> stage;
    FOPS_TRY(take_stage(device, &stage));
    const fops_status status = forward(*variant, *conv, x, k, y, *stage, layer);
    if (status == FOPS_OK) give_back(device, std::move(stage));  // after a failure it may be in use: let it go
    return status;
  } catch (...) {
    return caught();
  }
}

}  // namespace
}  // namespace fops

extern "C" fops_status fops_conv_forward_staged(const char* kernel, int device, const fops_conv* conv, const void* x,
                                                const float* k, float* y, const char* layer) {
  return fops::finish(fops::forward_staged(kernel, device, conv, x, k, y, layer));
}
