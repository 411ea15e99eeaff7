// Defines names that CUDA has removed and older kernel files use. nvcc includes this header before each file (-include).
#ifndef FOPS_CUDA_NAMES_H_
#define FOPS_CUDA_NAMES_H_
#ifdef __cplusplus
#include <cuda_runtime.h>

// Shuffles without a mask, which CUDA has removed for GPUs of capability 7.0 and later; it still declares them to the host's
// compiler. The old shuffles worked on the active lanes, so these functions pass the mask of the active lanes. With a full
// mask, a shuffle in a branch that only some lanes take would wait forever.
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 700
template <typename T>
__device__ T __shfl(T value, int lane, int width = 32) {
  return __shfl_sync(__activemask(), value, lane, width);
}
template <typename T>
__device__ T __shfl_up(T value, unsigned lanes, int width = 32) {
  return __shfl_up_sync(__activemask(), value, lanes, width);
}
template <typename T>
__device__ T __shfl_down(T value, unsigned lanes, int width = 32) {
  return __shfl_down_sync(__activemask(), value, lanes, width);
}
template <typename T>
__device__ T __shfl_xor(T value, int lanes, int width = 32) {
  return __shfl_xor_sync(__activemask(), value, lanes, width);
}
#endif

#if CUDART_VERSION >= 13000
inline cudaError_t cudaThreadSynchronize() { return cudaDeviceSynchronize(); }

// cudaDeviceProp with the members that CUDA 13 has removed. Most of them are device attributes now. The course's
// get_device_properties() prints such members.
struct FopsDeviceProp : cudaDeviceProp {
  int clockRate, memoryClockRate, deviceOverlap, kernelExecTimeoutEnabled, computeMode, maxTexture1DLinear;
  int singleToDoublePrecisionPerfRatio, cooperativeMultiDeviceLaunch;
};

inline cudaError_t cudaGetDeviceProperties(FopsDeviceProp* p, int device) {
  const struct {
    int* member;
    cudaDeviceAttr attribute;
  } members[] = {
      {&p->clockRate, cudaDevAttrClockRate},
      {&p->memoryClockRate, cudaDevAttrMemoryClockRate},
      {&p->deviceOverlap, cudaDevAttrGpuOverlap},
      {&p->kernelExecTimeoutEnabled, cudaDevAttrKernelExecTimeout},
      {&p->computeMode, cudaDevAttrComputeMode},
      {&p->maxTexture1DLinear, cudaDevAttrMaxTexture1DLinearWidth},
      {&p->singleToDoublePrecisionPerfRatio, cudaDevAttrSingleToDoublePrecisionPerfRatio},
  };
  cudaError_t error = cudaGetDeviceProperties(static_cast<cudaDeviceProp*>(p), device);
  for (const auto& one : members)
    if (error == cudaSuccess) error = cudaDeviceGetAttribute(one.member, one.attribute, device);
  p->cooperativeMultiDeviceLaunch = 0;  // CUDA 13 removed this kind of launch
  return error;
}
#define cudaDeviceProp FopsDeviceProp
#endif  // CUDA 13

#endif  // C++
#endif
