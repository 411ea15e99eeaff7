// Blocks of a cluster, which run at the same time (sm_90).
#pragma once

#include "gpu/isa/architecture.cuh"

namespace fops {

// A barrier of all threads of all blocks of the cluster, except those that have ended. What they wrote to global memory
// before it can be read after it.
__device__ inline void cluster_sync() {
#if FOPS_SM_90
  asm volatile("barrier.cluster.arrive.release;\nbarrier.cluster.wait.acquire;" ::: "memory");
#endif
}

}  // namespace fops
