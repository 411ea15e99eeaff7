// Which instructions the code that is being compiled may use. Each macro is 0 in the compiler's pass for the host.
//
// A wrapper in this folder whose instruction is missing has an empty body, unless noted otherwise. Kernels that need it
// are still compiled, empty or useless, and the host never launches them on that GPU.
#pragma once

#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800
#define FOPS_SM_80 1
#else
#define FOPS_SM_80 0
#endif

#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
#define FOPS_SM_90 1
#else
#define FOPS_SM_90 0
#endif

// Only code for sm_90a has wgmma; code for sm_90 and PTX for other GPUs' drivers do not.
#if defined(__CUDA_ARCH_FEAT_SM90_ALL)
#define FOPS_SM_90A 1
#else
#define FOPS_SM_90A 0
#endif

namespace fops {

// The bound on threads per block for a kernel with wgmma. The kernel's code for other GPUs is empty and bound to one
// warp, which tells the host which code the kernel has (has_code_here, gpu/launch.h).
#if defined(__CUDA_ARCH__) && !FOPS_SM_90A
constexpr int bound_with_wgmma(int) { return 32; }
#else
constexpr int bound_with_wgmma(int threads) { return threads; }
#endif

}  // namespace fops
