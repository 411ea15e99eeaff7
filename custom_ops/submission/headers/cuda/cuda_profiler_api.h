// The compiler's wheels lack this header. If a CUDA toolkit is installed, its header is used.
#ifndef FOPS_CUDA_PROFILER_API_H_
#define FOPS_CUDA_PROFILER_API_H_
#if __has_include_next(<cuda_profiler_api.h>)
#include_next <cuda_profiler_api.h>
#else
#include <cuda_runtime.h>
extern "C" cudaError_t cudaProfilerStart(void);
extern "C" cudaError_t cudaProfilerStop(void);
#endif
#endif
