// Synchronisation of a cluster's blocks, which run at the same time (sm_90).
#pragma once

#include "gpu/isa/architecture.cuh"

namespace fops {

// A barrier for all threads of all blocks of the cluster, except threads that have ended. Writes to global memory
// before the barrier are visible to all of these threads after it.
__device__ inline void cluster_sync() {
#if FOPS_SM_90
  asm volatile("barrier.cluster.arrive.release;\nbarrier.cluster.wait.acquire;" ::: "memory");
#endif
}

}  // namespace fops
