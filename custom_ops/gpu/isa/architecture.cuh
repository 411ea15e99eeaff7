// Macros that say which instructions the target of the current compilation has. In the compiler's pass for the host
// they are 0.
//
// If the target does not have an instruction, its wrapper in this folder has an empty body, unless noted otherwise.
// Kernels that use it are still compiled for that target, but are useless, and the host does not launch them there.
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

// wgmma exists only in code for sm_90a, not in code for sm_90 or for other GPUs.
#if defined(__CUDA_ARCH_FEAT_SM90_ALL)
#define FOPS_SM_90A 1
#else
#define FOPS_SM_90A 0
#endif

namespace fops {

// Returns the maximum threads per block of a kernel with wgmma, for __launch_bounds__. For other targets than sm_90a
// the kernel's code is empty, and the maximum is one warp: by that the host recognises empty code (has_code_here in
// gpu/launch.h).
#if defined(__CUDA_ARCH__) && !FOPS_SM_90A
constexpr int bound_with_wgmma(int) { return 32; }
#else
constexpr int bound_with_wgmma(int threads) { return threads; }
#endif

}  // namespace fops
