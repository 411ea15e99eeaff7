// Asynchronous copies, which run in parallel with arithmetic: cp.async (sm_80), copies by TMA (cp.async.bulk, sm_90)
// and prefetches into L1 and L2; and the instructions that order them.
#pragma once

#include <cuda.h>  // CUtensorMap; only types of the driver's API are used, nothing is linked
#include <cuda_fp16.h>

#include <cstdint>

#include "gpu/isa/architecture.cuh"
#include "gpu/isa/shared_memory.cuh"

namespace fops {

// ---- a few bytes per thread, global to shared memory ----

__device__ inline void copy_async_4(uint32_t to, const void* from) {
  if constexpr (FOPS_SM_80) asm volatile("cp.async.ca.shared.global [%0], [%1], 4;" ::"r"(to), "l"(from) : "memory");
}
// Copies 16 bytes, bypassing L1, if `inside`; otherwise stores 16 zero bytes. Before sm_80 this is an ordinary load and
// store.
__device__ inline void copy_async_16(__half* to, const __half* from, bool inside) {
#if FOPS_SM_80
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(shared_address(to)), "l"(from),
               "r"(inside ? 16 : 0)
               : "memory");
#else
  *reinterpret_cast<uint4*>(to) = inside ? __ldg(reinterpret_cast<const uint4*>(from)) : make_uint4(0, 0, 0, 0);
#endif
}
__device__ inline void copy_async_commit() {
  if constexpr (FOPS_SM_80) asm volatile("cp.async.commit_group;" ::: "memory");
}
__device__ inline void copy_async_wait_but_one() {
  if constexpr (FOPS_SM_80) asm volatile("cp.async.wait_group 1;" ::: "memory");
}
// Waits for all of this thread's copies, also those in no group.
__device__ inline void copy_async_wait_all() {
  if constexpr (FOPS_SM_80) asm volatile("cp.async.wait_all;" ::: "memory");
}

// ---- global memory into L1 ----

// Loads the cache line that contains `from` into L1, by an ordinary load whose value is not used.
__device__ inline void prefetch_l1(const float* from) {
  asm volatile("{.reg .f32 value; ld.global.nc.f32 value, [%0];}" ::"l"(from));
}

// ---- global memory into L2 ----

__device__ inline void prefetch_l2(const void* from) { asm volatile("prefetch.global.L2 [%0];" ::"l"(from)); }

// Prefetches `bytes` bytes from `from` on; each of `threads` threads prefetches 128 bytes at a time.
template <typename Bytes>
__device__ inline void prefetch_l2(const void* from, Bytes bytes, int threads) {
  for (int i = threadIdx.x * 128; i < bytes; i += threads * 128) prefetch_l2(static_cast<const char*>(from) + i);
}

// Prefetches `bytes` bytes (a multiple of 16, `from` aligned to 16) by TMA. One thread calls this.
__device__ inline void bulk_prefetch_l2(const void* from, int bytes) {
  if constexpr (FOPS_SM_90) asm volatile("cp.async.bulk.prefetch.L2.global [%0], %1;" ::"l"(from), "r"(bytes));
}

__device__ inline void bulk_prefetch_l2_kept(const void* from, int bytes) {
#if FOPS_SM_90
  uint64_t evict_last;
  asm volatile("createpolicy.fractional.L2::evict_last.b64 %0, 1.0;" : "=l"(evict_last));
  asm volatile("cp.async.bulk.prefetch.L2.global.L2::cache_hint [%0], %1, %2;" ::"l"(from), "r"(bytes), "l"(evict_last)
               : "memory");
#endif
}

// ---- blocks, shared to global memory, by TMA ----

constexpr bool kHasTma = FOPS_SM_90;  // whether TMA is available

// Starts an asynchronous copy of `bytes` bytes (a multiple of 16, both addresses aligned to 16) from shared to global
// memory. Marks the lines to be evicted from L2 first: outputs are not read again, and lines that stay in L2 longer are
// written to DRAM out of order.
__device__ inline void bulk_store(void* to, const void* from, int bytes) {
#if FOPS_SM_90
  uint64_t evict_first;
  asm volatile("createpolicy.fractional.L2::evict_first.b64 %0, 1.0;" : "=l"(evict_first));
  asm volatile("cp.async.bulk.global.shared::cta.bulk_group.L2::cache_hint [%0], [%1], %2, %3;" ::"l"(to),
               "r"(shared_address(from)), "r"(bytes), "l"(evict_first)
               : "memory");
#endif
}
// Copies like bulk_store, but does not mark the lines for early eviction. For data that the next kernel reads.
__device__ inline void bulk_store_kept(void* to, const void* from, int bytes) {
  if constexpr (FOPS_SM_90)
    asm volatile("cp.async.bulk.global.shared::cta.bulk_group [%0], [%1], %2;" ::"l"(to), "r"(shared_address(from)),
                 "r"(bytes)
                 : "memory");
}
__device__ inline void bulk_commit() {
  if constexpr (FOPS_SM_90) asm volatile("cp.async.bulk.commit_group;" ::: "memory");
}
// Waits until all of this thread's groups have read shared memory, which may be overwritten then.
__device__ inline void bulk_wait_read() {
  if constexpr (FOPS_SM_90) asm volatile("cp.async.bulk.wait_group.read 0;" ::: "memory");
}
__device__ inline void bulk_wait_written() {
  if constexpr (FOPS_SM_90) asm volatile("cp.async.bulk.wait_group 0;" ::: "memory");
}
// Waits until all of this thread's groups except the latest `pending` (0 to 3) have read shared memory.
__device__ inline void bulk_wait_read_but(int pending) {
#if FOPS_SM_90
  switch (pending) {
    case 0: asm volatile("cp.async.bulk.wait_group.read 0;" ::: "memory"); break;
    case 1: asm volatile("cp.async.bulk.wait_group.read 1;" ::: "memory"); break;
    case 2: asm volatile("cp.async.bulk.wait_group.read 2;" ::: "memory"); break;
    default: asm volatile("cp.async.bulk.wait_group.read 3;" ::: "memory"); break;
  }
#endif
}
// Makes this thread's ordinary writes to shared memory visible to later bulk copies and wgmma instructions.
__device__ inline void bulk_fence() {
  if constexpr (FOPS_SM_90) asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
}

// ---- bulk loads, global to shared memory, and the mbarriers that signal their arrival (used only with wgmma) ----

// Initialises an mbarrier. A phase completes after `arrivals` arrivals, and when all expected bytes have arrived.
__device__ inline void barrier_init(uint64_t* barrier, int arrivals) {
  if constexpr (FOPS_SM_90A)
    asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(shared_address(barrier)), "r"(arrivals) : "memory");
}
// Makes initialised barriers visible to TMA. Called once after all calls of barrier_init.
__device__ inline void barrier_init_end() {
  if constexpr (FOPS_SM_90A) asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
}
// Arrives at a barrier, and adds `bytes`, which copies will deliver, to the bytes that the phase expects.
__device__ inline void barrier_expect(uint64_t* barrier, uint32_t bytes) {
  if constexpr (FOPS_SM_90A)
    asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(shared_address(barrier)), "r"(bytes)
                 : "memory");
}
// Arrives at a barrier, which is given by its address in shared memory or, in the second function, by a pointer.
__device__ inline void barrier_arrive(uint32_t barrier) {
  if constexpr (FOPS_SM_90A) asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(barrier) : "memory");
}
__device__ inline void barrier_arrive(uint64_t* barrier) { barrier_arrive(shared_address(barrier)); }
__device__ inline void barrier_wait(uint32_t barrier, uint32_t parity) {
  if constexpr (FOPS_SM_90A)
    asm volatile(
        "{.reg .pred done;\n"
        "again: mbarrier.try_wait.parity.shared::cta.b64 done, [%0], %1;\n"
        "@!done bra again;}" ::"r"(barrier),
        "r"(parity)
        : "memory");
}
__device__ inline void barrier_wait(uint64_t* barrier, uint32_t parity) {
  barrier_wait(shared_address(barrier), parity);
}

__device__ inline bool barrier_done(uint64_t* barrier, uint32_t parity) {
  int done = 1;
  if constexpr (FOPS_SM_90A)
    asm volatile(
        "{.reg .pred done;\n"
        "mbarrier.test_wait.parity.shared::cta.b64 done, [%1], %2;\n"
        "selp.s32 %0, 1, 0, done;}"
        : "=r"(done)
        : "r"(shared_address(barrier)), "r"(parity)
        : "memory");
  return done != 0;
}

// The position in a circular buffer whose stages are guarded by barriers: the stage's index, and its phase bit, which
// changes with every round.
struct PipelineState {
  int stage = 0;
  uint32_t phase = 0;
  __device__ void next(int stages) {
    if (++stage == stages) stage = 0, phase ^= 1;
  }
};

// Starts a copy of `bytes` bytes (a multiple of 16, both addresses aligned to 16) to shared memory, which signals the
// arrived bytes at the barrier.
__device__ inline void bulk_load(void* to, const void* from, uint32_t bytes, uint64_t* barrier) {
  if constexpr (FOPS_SM_90A)
    asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];" ::"r"(
                     shared_address(to)),
                 "l"(from), "r"(bytes), "r"(shared_address(barrier))
                 : "memory");
}

// Starts a copy of the box of `map` that begins at (k, row) to shared memory, which signals the arrived bytes at the
// barrier.
__device__ inline void copy_tile(void* to, const CUtensorMap* map, int k, int row, uint64_t* barrier) {
  if constexpr (FOPS_SM_90A)
    asm volatile(
        "cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1, {%2, %3}], [%4];" ::"r"(
            shared_address(to)),
        "l"(map), "r"(k), "r"(row), "r"(shared_address(barrier))
        : "memory");
}

}  // namespace fops
