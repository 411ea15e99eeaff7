// NVTX marks ranges for a profiler. If neither a CUDA toolkit nor the wheel nvidia-nvtx is installed, its functions are
// defined here and do nothing.
#ifndef FOPS_NVTX_H_
#define FOPS_NVTX_H_
#if __has_include_next(<nvtx3/nvToolsExt.h>)
#include_next <nvtx3/nvToolsExt.h>
#else
inline int nvtxRangePushA(const char*) { return 0; }
inline int nvtxRangePop() { return 0; }
inline void nvtxMarkA(const char*) {}
#define nvtxRangePush nvtxRangePushA
#define nvtxMark nvtxMarkA
#endif
#endif
