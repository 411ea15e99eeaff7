// Which instructions the code being compiled may use. Each is 0 in the compiler's pass for the host.
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

// Only code for sm_90a has wgmma: neither code for sm_90 nor PTX that another GPU's driver translates.
#if defined(__CUDA_ARCH_FEAT_SM90_ALL)
#define FOPS_SM_90A 1
#else
#define FOPS_SM_90A 0
#endif

namespace fops {

// The bound on threads per block of a kernel with wgmma. Its code for other GPUs is empty and bound to one warp, which
// tells the host which code it has (has_code_here, gpu/launch.h).
#if defined(__CUDA_ARCH__) && !FOPS_SM_90A
constexpr int bound_with_wgmma(int) { return 32; }
#else
constexpr int bound_with_wgmma(int threads) { return threads; }
#endif

}  // namespace fops
