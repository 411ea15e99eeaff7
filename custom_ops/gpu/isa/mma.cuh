// The tensor-core instruction of a single warp, mma.sync, and ldmatrix, which loads its operands from shared memory.
#pragma once

#include <cuda_fp16.h>

#include <cstdint>

#include "gpu/isa/architecture.cuh"
#include "gpu/isa/shared_memory.cuh"

namespace fops {

// D (16 x 8, float32) += A (16 x 16, half) * B (16 x 8, half). Lanes (L0 to L31) and registers of the fragments:
//
//   A  k  0 1   2 3   4 5   6 7   8 9  ... 14 15     B  col  0    1    2  ...  7     D  col 0 1   2 3   4 5   6 7
//   row 0   L0    L1    L2    L3    L0  ...  L3      k 0 1   L0   L4   L8  ...  L28   row 0   L0    L1    L2    L3
//   row 1   L4    L5    L6    L7    L4  ...  L7      k 2 3   L1   L5   L9  ...  L29   row 1   L4    L5    L6    L7
//   ...     a[0]                    a[2]             k 4 5   L2   L6   ...   (b0)     ...     d[0] d[1]
//   row 8   L0    L1    L2    L3    L0  ...  L3      k 6 7   L3   L7   ...            row 8   L0    L1    L2    L3
//   ...     a[1]                    a[3]             k 8 9   L0   L4   ...   (b1)     ...     d[2] d[3]
//
// With g = lane / 4 and t = lane % 4, a lane holds rows g and g + 8 of A and D, column g of B and columns 2t and 2t + 1
// of D; its elements of A and B have k = 2t, 2t + 1, 2t + 8 and 2t + 9. The order of k is arbitrary if it is the same
// in A and B. Available from sm_80 on.
__device__ inline void mma(float (&d)[4], const uint32_t (&a)[4], uint32_t b0, uint32_t b1) {
  if constexpr (FOPS_SM_80)
    asm("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
        : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}

// The first mma of a chain of additions: D = A * B, so that the caller need not set D to zero.
__device__ inline void mma_first(float (&d)[4], const uint32_t (&a)[4], uint32_t b0, uint32_t b1) {
  if constexpr (FOPS_SM_80)
    asm("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%10,%10,%10,%10};"
        : "=f"(d[0]), "=f"(d[1]), "=f"(d[2]), "=f"(d[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1), "f"(0.0f));
}

// The next mma of a chain, or the first one if `first`, which should be a constant once loops are unrolled.
__device__ inline void mma_chain(bool first, float (&d)[4], const uint32_t (&a)[4], uint32_t b0, uint32_t b1) {
  if (first)
    mma_first(d, a, b0, b1);
  else
    mma(d, a, b0, b1);
}

// D (16 x 8) += A (16 x 8) * B (8 x 8): an mma of half the depth, with k = 2t and 2t + 1. Available from sm_75 on.
__device__ inline void mma_k8(float (&d)[4], uint32_t a0, uint32_t a1, uint32_t b0) {
  asm("mma.sync.aligned.m16n8k8.row.col.f32.f16.f16.f32 {%0,%1,%2,%3}, {%4,%5}, {%6}, {%0,%1,%2,%3};"
      : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
      : "r"(a0), "r"(a1), "r"(b0));
}

__device__ inline void mma_everywhere(float (&d)[4], const uint32_t (&a)[4], uint32_t b0, uint32_t b1) {
#if FOPS_SM_80
  mma(d, a, b0, b1);
#else
  mma_k8(d, a[0], a[1], b0);
  mma_k8(d, a[2], a[3], b1);
#endif
}

// Loads four 8 x 8 matrices of halves from shared memory. Lane i passes the address of row i % 8 of matrix i / 8. From
// matrix j it receives, in r[j], the two values that it holds in an mma fragment. Available from sm_75 on.
__device__ inline void load_matrices(uint32_t (&r)[4], uint32_t row) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
               : "r"(row)
               : "memory");
}
__device__ inline void load_matrices(uint32_t (&r)[4], const __half* row) { load_matrices(r, shared_address(row)); }

}  // namespace fops
