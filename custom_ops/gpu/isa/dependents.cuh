// Two kernels of a stream that overlap (sm_90): the second, launched by launch_early (gpu/launch.h), begins while the
// first still runs, and waits where it needs the first one's results. "Programmatic dependent launch" in CUDA's guide.
#pragma once

#include "gpu/isa/architecture.cuh"

namespace fops {

// Called in the first kernel: from here on, blocks of the second kernel may use free resources.
__device__ inline void let_next_kernel_begin() {
#if FOPS_SM_90
  asm volatile("griddepcontrol.launch_dependents;" ::: "memory");
#endif
}

// Called in the second kernel before it reads what the first kernel writes: waits until all of that is written.
__device__ inline void wait_for_previous_kernel() {
#if FOPS_SM_90
  asm volatile("griddepcontrol.wait;" ::: "memory");
#endif
}

}  // namespace fops
