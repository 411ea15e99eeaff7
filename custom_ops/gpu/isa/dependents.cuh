// Programmatic dependent launch (sm_90): a kernel that is launched by launch_early (gpu/launch.h) may begin while the
// previous kernel in the stream still runs, and waits where it needs that kernel's results.
#pragma once

#include "gpu/isa/architecture.cuh"

namespace fops {

// Called in the first of the two kernels: after all its blocks have called this or ended, the second kernel may begin.
__device__ inline void let_next_kernel_begin() {
  if constexpr (FOPS_SM_90) asm volatile("griddepcontrol.launch_dependents;" ::: "memory");
}

// Called in the second kernel: waits until the first kernel has ended and its writes to memory are visible.
__device__ inline void wait_for_previous_kernel() {
  if constexpr (FOPS_SM_90) asm volatile("griddepcontrol.wait;" ::: "memory");
}

}  // namespace fops
