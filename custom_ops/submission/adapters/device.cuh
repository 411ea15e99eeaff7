// Functions shared by the GPU adapters: they find the CUDA errors of a kernel file's code, and fill device memory.
#pragma once

#include <cuda_fp16.h>
#include <cuda_runtime.h>
#include <dlfcn.h>

#include "support.h"

namespace fops_adapter {

// Waits for the device, and returns a failure if the file's code has caused a fault. An error that the runtime only
// records, such as that of a launch with too many threads, becomes a notice, because the course's programs continued after
// such an error.
inline int settle(fops_plugin_call* call, const char* after) {
  const cudaError_t remembered = cudaGetLastError();
  const cudaError_t fault = cudaDeviceSynchronize();
  if (fault != cudaSuccess)
    return fail(call, fault == cudaErrorMemoryAllocation ? FOPS_OUT_OF_MEMORY : FOPS_DEVICE_ERROR,
                "CUDA error after %s: %s", after, cudaGetErrorString(fault));
  if (remembered != cudaSuccess)
    fail(call, FOPS_OK, "CUDA reported after %s: %s", after, cudaGetErrorString(remembered));
  return FOPS_OK;
}

// Device memory that is freed at the end of a scope. `data` is null if there is not enough memory, and for 0 bytes.
struct Buffer {
  void* data = nullptr;
  explicit Buffer(size_t bytes) {
    if (bytes != 0 && cudaMalloc(&data, bytes) != cudaSuccess) {
      cudaGetLastError();
      data = nullptr;
    }
  }
  ~Buffer() {
    if (data != nullptr) cudaFree(data);
  }
  Buffer(const Buffer&) = delete;
  Buffer& operator=(const Buffer&) = delete;
};

// The bits of a NaN that a GPU does not compute: a computed NaN has all bits of the mantissa set. So the judge can
// distinguish outputs that were not written from computed NaN.
constexpr unsigned kPoison = 0x7FC00000u, kNumber = 0x447A0000u;  // kNumber is FOPS_NUMBER

static __global__ void fill(unsigned* values, size_t n, unsigned value) {
  for (size_t i = blockIdx.x * size_t{blockDim.x} + threadIdx.x; i < n; i += size_t{gridDim.x} * blockDim.x)
    values[i] = value;
}

inline void poison(float* values, size_t n, unsigned bits = kPoison) {
  fill<<<1024, 256>>>(reinterpret_cast<unsigned*>(values), n, bits);
  cudaDeviceSynchronize();
}

// Fills the free memory that the file is likely to allocate next for its output with NaN. So outputs of an earlier, correct
// kernel that are still in this memory cannot be taken for the file's outputs.
inline void poison_free_memory(size_t outputs) {
  Buffer likely(outputs * sizeof(float));
  if (likely.data != nullptr) poison(static_cast<float*>(likely.data), outputs);
  cudaDeviceSynchronize();
}

static int asked = 0;  // `examine` of the call

// The file's cudaMalloc. In a judge's call the memory holds NaN, so that the result of a file that adds to memory which it
// never set is incorrect on every machine: memory is zero only if no program has used it before.
template <typename T>
cudaError_t filled_malloc(T** pointer, size_t bytes) {
  const cudaError_t status = cudaMalloc(reinterpret_cast<void**>(pointer), bytes);
  if (status == cudaSuccess && asked & (FOPS_OWN_NAN | FOPS_OWN_NUMBER))
    poison(reinterpret_cast<float*>(*pointer), bytes / sizeof(float), asked & FOPS_OWN_NUMBER ? kNumber : kPoison);
  return status;
}

// Runs a call of a format with one function on device tensors. forward() calls the file's function, called `name` in
// messages. Op Time is the time of that and a device synchronise.
template <typename F>
int run_on_device(fops_plugin_call* call, const char* name, F forward) {
  return guarded(call, [&]() -> int {
    cudaStreamSynchronize(static_cast<cudaStream_t>(call->stream));
    cudaGetLastError();
    const double start = now();
    forward();
    const int status = settle(call, name);
    call->op_seconds = now() - start;
    return status;
  });
}

// Returns the number of bytes from `p` to the end of its allocation in device memory; 0 for null, host memory and unknown
// pointers.
inline size_t bytes_behind(const void* p) {
  cudaPointerAttributes attributes{};
  if (p == nullptr || cudaPointerGetAttributes(&attributes, p) != cudaSuccess) {
    cudaGetLastError();
    return 0;
  }
  if (attributes.type != cudaMemoryTypeDevice && attributes.type != cudaMemoryTypeManaged) return 0;
  using Range = int (*)(unsigned long long*, size_t*, unsigned long long);
  static const Range range = [] {
    void* driver = dlopen("libcuda.so.1", RTLD_NOW);  // the runtime has no function for this
    return driver == nullptr ? nullptr : reinterpret_cast<Range>(dlsym(driver, "cuMemGetAddressRange_v2"));
  }();
  unsigned long long base = 0;
  size_t size = 0;
  const auto at = reinterpret_cast<unsigned long long>(p);
  return range == nullptr || range(&base, &size, at) != 0 ? 0 : static_cast<size_t>(base + size - at);
}

}  // namespace fops_adapter
