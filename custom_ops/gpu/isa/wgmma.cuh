// Hopper's tensor-core instruction wgmma, which a warpgroup (four warps) issues together and which runs asynchronously.
// Only in code for sm_90a.
#pragma once

#include <cstdint>

#include "gpu/isa/architecture.cuh"
#include "gpu/isa/shared_memory.cuh"

namespace fops {

// Returns the descriptor of a tile in shared memory with rows of 64 halves (128 bytes) in TMA's 128-byte swizzle;
// groups of eight rows are 1,024 bytes apart. Adding 2 to the descriptor (in units of 16 bytes) advances by 16 values
// of a row.
__device__ inline uint64_t tile_descriptor(const void* tile) {
  return (shared_address(tile) & 0x3ffff) >> 4 | uint64_t{1} << 16 | uint64_t{1024 >> 4} << 32 | uint64_t{1} << 62;
}

// Returns the descriptor of a tile of "core matrices" (8 rows of 8 halves in 128 contiguous bytes) without swizzle.
// `depth` is the number of bytes from a core matrix to the next one along k (the depth of 16), `rows` the number of
// bytes from a group of eight rows to the next group.
__device__ inline uint64_t core_descriptor(uint32_t address, uint32_t depth, uint32_t rows) {
  return (address & 0x3ffff) >> 4 | uint64_t{depth >> 4} << 16 | uint64_t{rows >> 4} << 32;
}

// ---- both operands in shared memory ----

// D (64 x kColumns, float32) = A (64 x 16) * B (16 x kColumns), plus D if `keep`; asynchronous, by the 4 warps of a
// warpgroup. a and b are descriptors. In warp w of the four, with g = lane / 4 and t = lane % 4, a lane's accumulator
// d[4 j + e] is row 16 w + g + 8 (e / 2), column 8 j + 2 t + e % 2 of D.
template <int kColumns>
__device__ void wgmma(float (&d)[kColumns / 2], uint64_t a, uint64_t b, int keep);

// The assembler statement lists each of the kColumns / 2 accumulators twice: as an operand (FOPS_SUMS) and in its text
// (FOPS_NAMES).
#define FOPS_SUMS_4(i) "+f"(d[i]), "+f"(d[i + 1]), "+f"(d[i + 2]), "+f"(d[i + 3])
#define FOPS_SUMS_8(i) FOPS_SUMS_4(i), FOPS_SUMS_4(i + 4)
#define FOPS_SUMS_EIGHT FOPS_SUMS_8(0)
#define FOPS_SUMS_12 FOPS_SUMS_8(0), FOPS_SUMS_4(8)
#define FOPS_SUMS_16 FOPS_SUMS_8(0), FOPS_SUMS_8(8)
#define FOPS_SUMS_20 FOPS_SUMS_16, FOPS_SUMS_4(16)
#define FOPS_SUMS_24 FOPS_SUMS_16, FOPS_SUMS_8(16)
#define FOPS_SUMS_28 FOPS_SUMS_24, FOPS_SUMS_4(24)
#define FOPS_SUMS_32 FOPS_SUMS_24, FOPS_SUMS_8(24)
#define FOPS_SUMS_36 FOPS_SUMS_32, FOPS_SUMS_4(32)
#define FOPS_SUMS_40 FOPS_SUMS_32, FOPS_SUMS_8(32)
#define FOPS_SUMS_48 FOPS_SUMS_40, FOPS_SUMS_8(40)
#define FOPS_SUMS_56 FOPS_SUMS_48, FOPS_SUMS_8(48)
#define FOPS_SUMS_64 FOPS_SUMS_56, FOPS_SUMS_8(56)
#define FOPS_SUMS_72 FOPS_SUMS_64, FOPS_SUMS_8(64)
#define FOPS_SUMS_76 FOPS_SUMS_72, FOPS_SUMS_4(72)
#define FOPS_SUMS_80 FOPS_SUMS_76, FOPS_SUMS_4(76)
#define FOPS_NAMES_EIGHT "%0, %1, %2, %3, %4, %5, %6, %7"
#define FOPS_NAMES_12 FOPS_NAMES_EIGHT ", %8, %9, %10, %11"
#define FOPS_NAMES_16 FOPS_NAMES_12 ", %12, %13, %14, %15"
#define FOPS_NAMES_20 FOPS_NAMES_16 ", %16, %17, %18, %19"
#define FOPS_NAMES_24 FOPS_NAMES_16 ", %16, %17, %18, %19, %20, %21, %22, %23"
#define FOPS_NAMES_28 FOPS_NAMES_24 ", %24, %25, %26, %27"
#define FOPS_NAMES_32 FOPS_NAMES_24 ", %24, %25, %26, %27, %28, %29, %30, %31"
#define FOPS_NAMES_40 FOPS_NAMES_32 ", %32, %33, %34, %35, %36, %37, %38, %39"
#define FOPS_NAMES_36 FOPS_NAMES_32 ", %32, %33, %34, %35"
#define FOPS_NAMES_48 FOPS_NAMES_40 ", %40, %41, %42, %43, %44, %45, %46, %47"
#define FOPS_NAMES_56 FOPS_NAMES_48 ", %48, %49, %50, %51, %52, %53, %54, %55"
#define FOPS_NAMES_64 FOPS_NAMES_56 ", %56, %57, %58, %59, %60, %61, %62, %63"
#define FOPS_NAMES_72 FOPS_NAMES_64 ", %64, %65, %66, %67, %68, %69, %70, %71"
#define FOPS_NAMES_76 FOPS_NAMES_72 ", %72, %73, %74, %75"
#define FOPS_NAMES_80 FOPS_NAMES_76 ", %76, %77, %78, %79"

// The wgmma with both operands in tiles of core matrices. a and b are the lower 32 bits of their descriptors. A's
// groups of eight rows are contiguous; B's groups of eight columns are `eight` units of 16 bytes apart.
template <int kColumns>
__device__ inline void wgmma_ss(float (&d)[kColumns / 2], uint32_t a, uint32_t b, int keep, uint32_t eight = 8) {
  wgmma<kColumns>(d, uint64_t{8} << 32 | a, uint64_t{eight} << 32 | b, keep);
}

// Defines wgmma<columns>, with `sums` accumulators. a_, b_ and keep_ are the numbers of the operands that follow the
// accumulators.
#define FOPS_DEFINE_WGMMA(columns, sums, a_, b_, keep_)                                               \
  template <>                                                                                         \
  __device__ inline void wgmma<columns>(float (&d)[columns / 2], uint64_t a, uint64_t b, int keep) {  \
    if constexpr (FOPS_SM_90A)                                                                        \
      asm volatile("{.reg .pred p; setp.ne.b32 p, %" #keep_                                           \
                   ", 0;\n"                                                                           \
                   "wgmma.mma_async.sync.aligned.m64n" #columns "k16.f32.f16.f16 {" FOPS_NAMES_##sums \
                   "}, %" #a_ ", %" #b_ ", p, 1, 1, 0, 0;}"                                           \
                   : FOPS_SUMS_##sums                                                                 \
                   : "l"(a), "l"(b), "r"(keep));                                                      \
  }
FOPS_DEFINE_WGMMA(16, EIGHT, 8, 9, 10)
FOPS_DEFINE_WGMMA(24, 12, 12, 13, 14)
FOPS_DEFINE_WGMMA(32, 16, 16, 17, 18)
FOPS_DEFINE_WGMMA(48, 24, 24, 25, 26)
FOPS_DEFINE_WGMMA(64, 32, 32, 33, 34)
FOPS_DEFINE_WGMMA(72, 36, 36, 37, 38)
FOPS_DEFINE_WGMMA(80, 40, 40, 41, 42)
FOPS_DEFINE_WGMMA(96, 48, 48, 49, 50)
FOPS_DEFINE_WGMMA(112, 56, 56, 57, 58)
FOPS_DEFINE_WGMMA(128, 64, 64, 65, 66)
FOPS_DEFINE_WGMMA(144, 72, 72, 73, 74)
FOPS_DEFINE_WGMMA(152, 76, 76, 77, 78)
FOPS_DEFINE_WGMMA(160, 80, 80, 81, 82)
#undef FOPS_DEFINE_WGMMA

// The wgmma with A in registers. Of its warp's 16 rows, a lane holds row g in a[0] and a[2], and row g + 8 in a[1] and
// a[3]; a[0] and a[1] are columns 2t and 2t + 1, and a[2] and a[3] are columns 2t + 8 and 2t + 9. `b` is the lower 32
// bits of B's descriptor; B's groups of eight columns are `eight` units of 16 bytes apart.
template <int kColumns>
__device__ void wgmma_rs(float (&d)[kColumns / 2], const uint32_t (&a)[4], uint32_t b, int keep, uint32_t eight = 8);
#define FOPS_DEFINE_WGMMA(columns, sums, a_, b_, c_, d_, e_, keep_)                                               \
  template <>                                                                                                     \
  __device__ inline void wgmma_rs<columns>(float (&d)[columns / 2], const uint32_t (&a)[4], uint32_t b, int keep, \
                                           uint32_t eight) {                                                      \
    if constexpr (FOPS_SM_90A)                                                                                    \
      asm volatile("{.reg .pred p; setp.ne.b32 p, %" #keep_                                                       \
                   ", 0;\n"                                                                                       \
                   "wgmma.mma_async.sync.aligned.m64n" #columns "k16.f32.f16.f16 {" FOPS_NAMES_##sums             \
                   "}, {%" #a_ ", %" #b_ ", %" #c_ ", %" #d_ "}, %" #e_ ", p, 1, 1, 0;}"                          \
                   : FOPS_SUMS_##sums                                                                             \
                   : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(uint64_t{eight} << 32 | b), "r"(keep));      \
  }
FOPS_DEFINE_WGMMA(16, EIGHT, 8, 9, 10, 11, 12, 13)
FOPS_DEFINE_WGMMA(32, 16, 16, 17, 18, 19, 20, 21)
FOPS_DEFINE_WGMMA(40, 20, 20, 21, 22, 23, 24, 25)
FOPS_DEFINE_WGMMA(48, 24, 24, 25, 26, 27, 28, 29)
FOPS_DEFINE_WGMMA(56, 28, 28, 29, 30, 31, 32, 33)
FOPS_DEFINE_WGMMA(64, 32, 32, 33, 34, 35, 36, 37)
FOPS_DEFINE_WGMMA(80, 40, 40, 41, 42, 43, 44, 45)
FOPS_DEFINE_WGMMA(96, 48, 48, 49, 50, 51, 52, 53)
FOPS_DEFINE_WGMMA(112, 56, 56, 57, 58, 59, 60, 61)
FOPS_DEFINE_WGMMA(128, 64, 64, 65, 66, 67, 68, 69)
#undef FOPS_DEFINE_WGMMA

// ---- operand A in registers, accumulators in rows of eight ----

// sum[0] to sum[kCount - 1] += A (64 x 16, registers) * B (16 x 16 kCount, shared memory), 16 columns per row of `sum`.
// `b` is the lower 32 bits of B's descriptor; B's groups of eight columns are kEight units of 16 bytes apart. `a` is as
// in wgmma_rs. In a row of `sum`, elements 0, 1, 4 and 5 are row g of the warp's 16 rows, and elements 2, 3, 6 and 7
// are row g + 8; elements 0 to 3 are columns 2t and 2t + 1, and elements 4 to 7 are columns 2t + 8 and 2t + 9.
template <int kCount, uint32_t kEight, int kRows>
__device__ inline void wgmma_add(float (&sum)[kRows][8], const uint32_t (&a)[4], uint32_t b) {
  static_assert(kCount >= 1 && kCount <= kRows, "");
  wgmma_rs<16 * kCount>(reinterpret_cast<float (&)[8 * kCount]>(sum), a, b, 1, kEight);
}

// ---- synchronisation, accumulators and barriers ----

// Called before the first wgmma, and before a wgmma whose registers ordinary instructions have changed.
__device__ inline void wgmma_fence() {
  if constexpr (FOPS_SM_90A) asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
}
__device__ inline void wgmma_commit() {
  if constexpr (FOPS_SM_90A) asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
}
template <int kPending>
__device__ inline void wgmma_wait_but() {
  if constexpr (FOPS_SM_90A) asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(kPending) : "memory");
}
// The compiler does not know that a wgmma in flight still writes its accumulators and reads its operands. A call of
// keep_register after the wait makes the compiler keep the value in its register until then, and keep later uses of the
// value after the call.
__device__ inline void keep_register(float& value) { asm volatile("" : "+f"(value)::"memory"); }
__device__ inline void keep_register(uint32_t& value) { asm volatile("" : "+r"(value)::"memory"); }

// Waits for all groups of wgmma except the latest kPending, which must not write these accumulators. Then the
// accumulators may be read. (The second function waits for all groups.)
template <int kPending = 0, int kRegisters>
__device__ inline void wgmma_wait(float (&d)[kRegisters]) {
  wgmma_wait_but<kPending>();
#pragma unroll
  for (int i = 0; i < kRegisters; ++i) keep_register(d[i]);
}
template <int kRows, int kRegisters>
__device__ inline void wgmma_wait(float (&sum)[kRows][kRegisters]) {
  wgmma_wait_but<0>();
#pragma unroll
  for (int s = 0; s < kRows; ++s)
#pragma unroll
    for (int i = 0; i < kRegisters; ++i) keep_register(sum[s][i]);
}

// Sets a finite sum to zero, by a multiplication. With an assignment the compiler would insert a wait after each wgmma
// ("serialized due to insufficient register resources").
__device__ inline void clear_sum(float& sum) { asm volatile("mul.f32 %0, %0, 0f00000000;" : "+f"(sum)); }

// move_sum copies a sum to another register; begin_sum sets any sum to zero, even an infinity. Neither uses an
// assignment, for the reason given at clear_sum.
__device__ inline void move_sum(float& to, float from) { asm volatile("mov.f32 %0, %1;" : "=f"(to) : "f"(from)); }
__device__ inline void begin_sum(float& sum) { asm volatile("mov.f32 %0, 0f00000000;" : "=f"(sum)); }

// Ends a chain of additions: *total = sum (or *total += sum, if kMore); then sets the sum to zero.
template <bool kMore>
__device__ inline void take_chain(float* total, float& sum) {
  if constexpr (kMore)
    asm volatile("add.f32 %0, %0, %1;" : "+f"(*total) : "f"(sum));
  else
    asm volatile("mov.f32 %0, %1;" : "=f"(*total) : "f"(sum));
  clear_sum(sum);
}

// Combines the accumulators of an output: *done = (total + sum + small / 2^11) * scale, where `small` is the sum of
// products with enlarged low parts (split_enlarged). Then sets `sum` and `small` to zero.
__device__ inline void take_sums(float* done, float total, float& sum, float& small, float scale) {
  asm volatile("fma.rn.f32 %0, %1, 0f3A000000, %2;" : "=f"(*done) : "f"(small), "f"(sum));
  asm volatile("add.f32 %0, %0, %1;" : "+f"(*done) : "f"(total));
  asm volatile("mul.f32 %0, %0, %1;" : "+f"(*done) : "f"(scale));
  clear_sum(sum);
  clear_sum(small);
}

// A barrier for all threads of all blocks of the cluster, except threads that have ended. Writes to global memory
// before the barrier are visible to all of these threads after it.
__device__ inline void cluster_sync() {
  if constexpr (FOPS_SM_90) asm volatile("barrier.cluster.arrive.release;\nbarrier.cluster.wait.acquire;" ::: "memory");
}

// Waits at barrier `number`, one of a block's sixteen, for `threads` threads; number 0 is the barrier of __syncthreads.
__device__ inline void named_barrier(int number, int threads) {
  asm volatile("bar.sync %0, %1;" ::"r"(number), "r"(threads) : "memory");
}
// Arrives at a barrier without waiting. Threads that wait there in named_barrier then see this thread's writes.
__device__ inline void named_arrive(int number, int threads) {
  asm volatile("bar.arrive %0, %1;" ::"r"(number), "r"(threads) : "memory");
}
// Waits at a barrier like named_barrier, and returns whether `value` is true in any of the `threads` threads.
__device__ inline bool named_barrier_or(int number, int threads, bool value) {
  int any;
  asm volatile(
      "{.reg .pred one, all;\n"
      "setp.ne.s32 one, %1, 0;\n"
      "bar.red.or.pred all, %2, %3, one;\n"
      "selp.s32 %0, 1, 0, all;}"
      : "=r"(any)
      : "r"(static_cast<int>(value)), "r"(number), "r"(threads)
      : "memory");
  return any != 0;
}
// Sets the maximum number of registers per thread of a warpgroup to kCount, which is less than before. Releases the
// rest.
template <int kCount>
__device__ inline void setmaxnreg_dec() {
  if constexpr (FOPS_SM_90A) asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" ::"n"(kCount));
}
template <int kCount>
__device__ inline void setmaxnreg_inc() {
  if constexpr (FOPS_SM_90A) asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" ::"n"(kCount));
}

}  // namespace fops
