// Blocks of a cluster, which run at the same time (sm_90).
#pragma once

#include "gpu/isa/architecture.cuh"

namespace fops {

// A barrier for all threads of all blocks of the cluster, except threads that have ended. What a thread wrote to global
// memory before the barrier can be read by all of them after the barrier.
__device__ inline void cluster_sync() {
#if FOPS_SM_90
  asm volatile("barrier.cluster.arrive.release;\nbarrier.cluster.wait.acquire;" ::: "memory");
#endif
}

}  // namespace fops
