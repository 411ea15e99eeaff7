// Copies that run in parallel with arithmetic: by the threads' loads (cp.async, sm_80), by TMA (cp.async.bulk and
// tensor copies, sm_90), into L2 (prefetch), and the instructions that order them.
#pragma once

#include <cuda.h>  // CUtensorMap; only types of the driver's API are used, nothing is linked
#include <cuda_fp16.h>

#include <cstdint>

#include "gpu/isa/architecture.cuh"
#include "gpu/isa/shared_memory.cuh"

namespace fops {

// ---- a few bytes per thread, global to shared memory ----

// Copies 4 bytes. `to` is an address in shared memory.
__device__ inline void copy_async_4(uint32_t to, const void* from) {
#if FOPS_SM_80
  asm volatile("cp.async.ca.shared.global [%0], [%1], 4;" ::"r"(to), "l"(from) : "memory");
#endif
}
// Copies 16 bytes, bypassing L1, or stores 16 zeros if not `inside`. Before sm_80 this is an ordinary load and store.
__device__ inline void copy_async_16(__half* to, const __half* from, bool inside) {
#if FOPS_SM_80
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(shared_address(to)), "l"(from),
               "r"(inside ? 16 : 0)
               : "memory");
#else
  *reinterpret_cast<uint4*>(to) = inside ? __ldg(reinterpret_cast<const uint4*>(from)) : make_uint4(0, 0, 0, 0);
#endif
}
// Three functions: close this thread's group of copies; wait for all groups except the latest; wait for all copies,
// grouped or not.
__device__ inline void copy_async_commit() {
#if FOPS_SM_80
  asm volatile("cp.async.commit_group;" ::: "memory");
#endif
}
__device__ inline void copy_async_wait_but_one() {
#if FOPS_SM_80
  asm volatile("cp.async.wait_group 1;" ::: "memory");
#endif
}
__device__ inline void copy_async_wait_all() {
#if FOPS_SM_80
  asm volatile("cp.async.wait_all;" ::: "memory");
#endif
}

// ---- global memory into L1 ----

// Loads the line of `from` into L1: an ordinary load, whose value is not used. Later loads find the line there.
__device__ inline void prefetch_l1(const float* from) {
  asm volatile("{.reg .f32 value; ld.global.nc.f32 value, [%0];}" ::"l"(from));
}

// ---- global memory into L2 ----

// Prefetches the cache line that contains `from`.
__device__ inline void prefetch_l2(const void* from) { asm volatile("prefetch.global.L2 [%0];" ::"l"(from)); }

// Prefetches `bytes` from `from` on with `threads` threads, which take turns of 128 bytes each.
template <typename Bytes>
__device__ inline void prefetch_l2(const void* from, Bytes bytes, int threads) {
  for (int i = threadIdx.x * 128; i < bytes; i += threads * 128) prefetch_l2(static_cast<const char*>(from) + i);
}

// Prefetches `bytes` (a multiple of 16, `from` aligned to 16) with one thread and TMA.
__device__ inline void bulk_prefetch_l2(const void* from, int bytes) {
#if FOPS_SM_90
  asm volatile("cp.async.bulk.prefetch.L2.global [%0], %1;" ::"l"(from), "r"(bytes));
#endif
}

// Prefetches like bulk_prefetch_l2, but the lines stay in L2 when others are evicted.
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

// One asynchronous copy of `bytes` (a multiple of 16, both ends aligned to 16) from shared to global memory. Its lines
// are marked to be evicted from L2 first: outputs are not read again, and lines that stay longer are written to DRAM
// out of order.
__device__ inline void bulk_store(void* to, const void* from, int bytes) {
#if FOPS_SM_90
  uint64_t evict_first;
  asm volatile("createpolicy.fractional.L2::evict_first.b64 %0, 1.0;" : "=l"(evict_first));
  asm volatile("cp.async.bulk.global.shared::cta.bulk_group.L2::cache_hint [%0], [%1], %2, %3;" ::"l"(to),
               "r"(shared_address(from)), "r"(bytes), "l"(evict_first)
               : "memory");
#endif
}
// Copies like bulk_store, but the lines stay in L2, for data that the next kernel reads.
__device__ inline void bulk_store_kept(void* to, const void* from, int bytes) {
#if FOPS_SM_90
  asm volatile("cp.async.bulk.global.shared::cta.bulk_group [%0], [%1], %2;" ::"l"(to), "r"(shared_address(from)),
               "r"(bytes)
               : "memory");
#endif
}
// Two functions: close this thread's group of copies; wait until all its groups have read shared memory.
__device__ inline void bulk_commit() {
#if FOPS_SM_90
  asm volatile("cp.async.bulk.commit_group;" ::: "memory");
#endif
}
__device__ inline void bulk_wait_read() {
#if FOPS_SM_90
  asm volatile("cp.async.bulk.wait_group.read 0;" ::: "memory");
#endif
}
// Waits until all of this thread's groups have written their data, too.
__device__ inline void bulk_wait_written() {
#if FOPS_SM_90
  asm volatile("cp.async.bulk.wait_group 0;" ::: "memory");
#endif
}
// Waits until all of this thread's groups except the latest `pending`, 0 to 3, have read shared memory.
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
// Orders a thread's ordinary writes to shared memory before a copy, or a wgmma, that reads them.
__device__ inline void bulk_fence() {
#if FOPS_SM_90
  asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
#endif
}

// ---- tiles of a matrix, global to shared memory, and the barriers that count them (used only with wgmma) ----

__device__ inline void barrier_init(uint64_t* barrier, int arrivals) {
#if FOPS_SM_90A
  asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(shared_address(barrier)), "r"(arrivals) : "memory");
#endif
}
// Makes the barriers' initial state visible to TMA.
__device__ inline void barrier_init_end() {
#if FOPS_SM_90A
  asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
#endif
}
// One arrival, together with the number of bytes that copies will deliver.
__device__ inline void barrier_expect(uint64_t* barrier, uint32_t bytes) {
#if FOPS_SM_90A
  asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(shared_address(barrier)), "r"(bytes)
               : "memory");
#endif
}
// Arrives at a barrier, given by pointer or by its address in shared memory.
__device__ inline void barrier_arrive(uint32_t barrier) {
#if FOPS_SM_90A
  asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(barrier) : "memory");
#endif
}
__device__ inline void barrier_arrive(uint64_t* barrier) { barrier_arrive(shared_address(barrier)); }
__device__ inline void barrier_wait(uint32_t barrier, uint32_t parity) {
#if FOPS_SM_90A
  asm volatile(
      "{.reg .pred done;\n"
      "again: mbarrier.try_wait.parity.shared::cta.b64 done, [%0], %1;\n"
      "@!done bra again;}" ::"r"(barrier),
      "r"(parity)
      : "memory");
#endif
}
__device__ inline void barrier_wait(uint64_t* barrier, uint32_t parity) {
  barrier_wait(shared_address(barrier), parity);
}

// Whether the barrier's phase is complete.
__device__ inline bool barrier_done(uint64_t* barrier, uint32_t parity) {
  int done = 1;
#if FOPS_SM_90A
  asm volatile(
      "{.reg .pred done;\n"
      "mbarrier.test_wait.parity.shared::cta.b64 done, [%1], %2;\n"
      "selp.s32 %0, 1, 0, done;}"
      : "=r"(done)
      : "r"(shared_address(barrier)), "r"(parity)
      : "memory");
#endif
  return done != 0;
}

// Position in a circular buffer whose stages such barriers guard: the stage, and the parity of the round.
struct PipelineState {
  int stage = 0;
  uint32_t phase = 0;
  __device__ void next(int stages) {
    if (++stage == stages) stage = 0, phase ^= 1;
  }
};

// Copies `bytes` (a multiple of 16, both ends aligned to 16) to shared memory, and counts them at the barrier.
__device__ inline void bulk_load(void* to, const void* from, uint32_t bytes, uint64_t* barrier) {
#if FOPS_SM_90A
  asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];" ::"r"(
                   shared_address(to)),
               "l"(from), "r"(bytes), "r"(shared_address(barrier))
               : "memory");
#endif
}

// Copies the box of `map` that begins at (k, row) to shared memory, and counts its bytes at the barrier.
__device__ inline void copy_tile(void* to, const CUtensorMap* map, int k, int row, uint64_t* barrier) {
#if FOPS_SM_90A
  asm volatile(
      "cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1, {%2, %3}], [%4];" ::"r"(
          shared_address(to)),
      "l"(map), "r"(k), "r"(row), "r"(shared_address(barrier))
      : "memory");
#endif
}

}  // namespace fops
