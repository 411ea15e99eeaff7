// Hopper's own instructions as the dense layer uses them: wgmma, the tensor copy engine, the barriers between them.
#pragma once

#include <cuda.h>  // CUtensorMap; of the driver's API only types are used, nothing of it is linked
#include <cuda_fp16.h>

#include <cstdint>

// Only code made for sm_90a has these instructions: not sm_90's, and not PTX that another GPU's driver translates.
#if defined(__CUDA_ARCH_FEAT_SM90_ALL)
#define FOPS_WGMMA 1
#else
#define FOPS_WGMMA 0
#endif

namespace fops {

__device__ inline uint32_t shared_address(const void* p) { return static_cast<uint32_t>(__cvta_generic_to_shared(p)); }

// A tile in shared memory as wgmma reads it: rows of 64 halves (128 bytes) with the copy engine's 128-byte swizzle,
// eight rows 1,024 bytes apart. 16 inputs further on is 32 bytes, 2 in a descriptor's units.
__device__ inline uint64_t tile_descriptor(const void* tile) {
  return (shared_address(tile) & 0x3ffff) >> 4 | uint64_t{1} << 16 | uint64_t{1024 >> 4} << 32 | uint64_t{1} << 62;
}

// D (64 x kColumns, float32) = A (64 x 16) * B (16 x kColumns), plus D if `keep`; asynchronous, by 4 warps together.
// With warp w of the four, g = lane / 4 and t = lane % 4, a lane holds of D at d[4 j + e] row 16 w + g + 8 (e / 2),
// column 8 j + 2 t + e % 2.
template <int kColumns>
__device__ void wgmma(float (&d)[kColumns / 2], uint64_t a, uint64_t b, int keep);

// The instruction names each of its kColumns / 2 sums: as operands of the assembler, and in its text.
#define FOPS_SUMS_4(i) "+f"(d[i]), "+f"(d[i + 1]), "+f"(d[i + 2]), "+f"(d[i + 3])
#define FOPS_SUMS_8(i) FOPS_SUMS_4(i), FOPS_SUMS_4(i + 4)
#define FOPS_SUMS_16 FOPS_SUMS_8(0), FOPS_SUMS_8(8)
#define FOPS_SUMS_40 FOPS_SUMS_16, FOPS_SUMS_8(16), FOPS_SUMS_8(24), FOPS_SUMS_8(32)
#define FOPS_SUMS_72 FOPS_SUMS_40, FOPS_SUMS_8(40), FOPS_SUMS_8(48), FOPS_SUMS_8(56), FOPS_SUMS_8(64)
#define FOPS_SUMS_76 FOPS_SUMS_72, FOPS_SUMS_4(72)
#define FOPS_SUMS_80 FOPS_SUMS_76, FOPS_SUMS_4(76)
#define FOPS_NAMES_16 "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15"
#define FOPS_NAMES_40 FOPS_NAMES_16 \
  ", %16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31" \
  ", %32, %33, %34, %35, %36, %37, %38, %39"
#define FOPS_NAMES_72 FOPS_NAMES_40 \
  ", %40, %41, %42, %43, %44, %45, %46, %47, %48, %49, %50, %51, %52, %53, %54, %55" \
  ", %56, %57, %58, %59, %60, %61, %62, %63, %64, %65, %66, %67, %68, %69, %70, %71"
#define FOPS_NAMES_76 FOPS_NAMES_72 ", %72, %73, %74, %75"
#define FOPS_NAMES_80 FOPS_NAMES_76 ", %76, %77, %78, %79"

// wgmma of `columns`, whose `sums` registers the operands numbered a, b and keep follow.
#if FOPS_WGMMA
#define FOPS_WGMMA_BODY(columns, sums, a_, b_, keep_)                                                        \
  asm volatile("{.reg .pred p; setp.ne.b32 p, %" #keep_ ", 0;\n"                                             \
               "wgmma.mma_async.sync.aligned.m64n" #columns "k16.f32.f16.f16 {" FOPS_NAMES_##sums "}, %" #a_ \
               ", %" #b_ ", p, 1, 1, 0, 0;}"                                                                 \
               : FOPS_SUMS_##sums                                                                            \
               : "l"(a), "l"(b), "r"(keep))
#else
#define FOPS_WGMMA_BODY(columns, sums, a_, b_, keep_)
#endif
#define FOPS_DEFINE_WGMMA(columns, sums, a_, b_, keep_)                                                  \
  template <>                                                                                            \
  __device__ inline void wgmma<columns>(float(&d)[sums], uint64_t a, uint64_t b, int keep) {              \
    FOPS_WGMMA_BODY(columns, sums, a_, b_, keep_);                                                       \
  }
FOPS_DEFINE_WGMMA(32, 16, 16, 17, 18)
FOPS_DEFINE_WGMMA(80, 40, 40, 41, 42)
FOPS_DEFINE_WGMMA(144, 72, 72, 73, 74)
FOPS_DEFINE_WGMMA(152, 76, 76, 77, 78)
FOPS_DEFINE_WGMMA(160, 80, 80, 81, 82)
#undef FOPS_DEFINE_WGMMA
#undef FOPS_WGMMA_BODY

// Before the first wgmma on registers that ordinary instructions have touched.
__device__ inline void wgmma_begin() {
#if FOPS_WGMMA
  asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
#endif
}
__device__ inline void wgmma_commit() {
#if FOPS_WGMMA
  asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
#endif
}
// Waits for all; D is then in its registers.
template <int kRegisters>
__device__ inline void wgmma_wait(float (&d)[kRegisters]) {
#if FOPS_WGMMA
  asm volatile("wgmma.wait_group.sync.aligned 0;" ::: "memory");
#pragma unroll
  for (int i = 0; i < kRegisters; ++i) asm volatile("" : "+f"(d[i])::"memory");  // no use of D moves up past the wait
#endif
}

__device__ inline void barrier_init(uint64_t* barrier, int arrivals) {
#if FOPS_WGMMA
  asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(shared_address(barrier)), "r"(arrivals) : "memory");
#endif
}
// Makes the barriers' first state visible to the copy engine.
__device__ inline void barrier_init_end() {
#if FOPS_WGMMA
  asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
#endif
}
// One arrival, and `bytes` that copies are still to bring.
__device__ inline void barrier_expect(uint64_t* barrier, uint32_t bytes) {
#if FOPS_WGMMA
  asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(shared_address(barrier)), "r"(bytes)
               : "memory");
#endif
}
__device__ inline void barrier_arrive(uint64_t* barrier) {
#if FOPS_WGMMA
  asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(shared_address(barrier)) : "memory");
#endif
}
__device__ inline void barrier_wait(uint64_t* barrier, uint32_t parity) {
#if FOPS_WGMMA
  asm volatile(
      "{.reg .pred done;\n"
      "again: mbarrier.try_wait.parity.shared::cta.b64 done, [%0], %1;\n"
      "@!done bra again;}" ::"r"(shared_address(barrier)),
      "r"(parity)
      : "memory");
#endif
}

// The box of `map` that begins at (k, row), to shared memory; its bytes are counted at the barrier.
__device__ inline void copy_tile(void* to, const CUtensorMap* map, int k, int row, uint64_t* barrier) {
#if FOPS_WGMMA
  asm volatile(
      "cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1, {%2, %3}], [%4];" ::"r"(
          shared_address(to)),
      "l"(map), "r"(k), "r"(row), "r"(shared_address(barrier))
      : "memory");
#endif
}
// A warpgroup gives up registers, or waits for those that others gave up.
template <int kCount>
__device__ inline void registers_down() {
#if FOPS_WGMMA
  asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" ::"n"(kCount));
#endif
}
template <int kCount>
__device__ inline void registers_up() {
#if FOPS_WGMMA
  asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" ::"n"(kCount));
#endif
}

}  // namespace fops
