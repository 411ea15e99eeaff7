// Float32 grade from half-precision tensor cores: splitting, scaling, and the mma instruction. Used by steps 12 and 13.
//
// A float32 value v, scaled by a power of two so that it lies well inside half's range, is split into hi = half(v) and
// lo = half(v - hi): 22 bits or more of v's 24. Then
//     v * w = hi*whi + (lo*whi + hi*wlo) + lo*wlo,
// each product of two halves is exact in float32, and the last term, 2^-24 of the first, is dropped. Three matrix
// products in place of one, at a rate fifteen times the float32 pipes'. Ootomo and Yokota (2022) describe the method
// and its one trap: tensor cores truncate as they accumulate, so the chains of additions are to be short.
#pragma once

#include <cuda_fp16.h>

#include <cstdint>

namespace fops {

constexpr float kHalfMax = 65504.0f;

// Images are scaled by 2^6 before they are split: pixels 0..255 (16,320 at most) and activations of +-1 alike lie in
// the window [0.5, 32768], where lo keeps 2^-25 or better. A tile whose largest value falls outside gets a scale of its
// own (scale_for): the same rule for every tile, so that a result never depends on the block that computed it.
constexpr float kImageScale = 64.0f;
constexpr float kWindowLow = 0.5f, kWindowHigh = 32768.0f;

struct Split {
  __half hi, lo;
};

__device__ inline Split split(float scaled) {
  const __half hi = __float2half_rn(scaled);
  return {hi, __float2half_rn(scaled - __half2float(hi))};
}

__device__ inline uint32_t pack(__half low, __half high) {
  return static_cast<uint32_t>(__half_as_ushort(low)) | static_cast<uint32_t>(__half_as_ushort(high)) << 16;
}

// The power of two that brings `largest` into [2^13, 2^14); 1 for zero. Its exponent stops at +-100 so that the product
// of two scales, and its inverse, stay finite after they are applied one at a time.
__device__ inline float scale_for(float largest) {
  if (!(largest > 0.0f)) return 1.0f;
  return ldexpf(1.0f, max(-100, min(100, 13 - ilogbf(largest))));
}

// D (16 x 8, float32) += A (16 x 16, half) * B (16 x 8, half). Which lane holds what, and in which register:
//
//   A  k  0 1   2 3   4 5   6 7   8 9  ... 14 15     B  col  0    1    2  ...  7     D  col 0 1   2 3   4 5   6 7
//   row 0   L0    L1    L2    L3    L0  ...  L3      k 0 1   L0   L4   L8  ...  L28   row 0   L0    L1    L2    L3
//   row 1   L4    L5    L6    L7    L4  ...  L7      k 2 3   L1   L5   L9  ...  L29   row 1   L4    L5    L6    L7
//   ...     a[0]                    a[2]             k 4 5   L2   L6   ...   (b0)     ...     d[0] d[1]
//   row 8   L0    L1    L2    L3    L0  ...  L3      k 6 7   L3   L7   ...            row 8   L0    L1    L2    L3
//   ...     a[1]                    a[3]             k 8 9   L0   L4   ...   (b1)     ...     d[2] d[3]
//
// With g = lane / 4 and t = lane % 4: rows g and g + 8 of A and D, column g of B, and k = 2t, 2t + 1, 2t + 8, 2t + 9.
// The order of k is ours to choose, as long as A and B agree: "pair" in steps 12 and 13 is one such register.
__device__ inline void mma(float (&d)[4], const uint32_t (&a)[4], uint32_t b0, uint32_t b1) {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800
  asm(
      "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
      : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
#endif
}

// A 16-byte store to shared memory; written out because the compiler makes four of `*float4_pointer = ...` here.
__device__ inline void store_shared(float* to, float4 v) {
  asm volatile("st.shared.v4.f32 [%0], {%1, %2, %3, %4};" ::"r"(static_cast<uint32_t>(__cvta_generic_to_shared(to))),
               "f"(v.x), "f"(v.y), "f"(v.z), "f"(v.w)
               : "memory");
}

// The larger of a magnitude so far and |value|; a NaN counts as infinity.
__device__ inline float larger(float so_far, float value) {
  return fabsf(value) <= so_far ? so_far : fminf(fabsf(value), INFINITY);  // fminf of NaN and infinity is infinity
}

// The largest |value| over a block, for values of 0 and above. Every thread calls it; `scratch` is one shared word.
__device__ inline float block_max(float value, unsigned* scratch) {
  unsigned bits = __float_as_uint(value);  // ordered as unsigned integers are
  __syncthreads();
  if (threadIdx.x == 0) *scratch = 0;
  __syncthreads();
  for (int offset = 16; offset > 0; offset /= 2) bits = max(bits, __shfl_xor_sync(0xffffffffu, bits, offset));
  if (threadIdx.x % 32 == 0) atomicMax(scratch, bits);
  __syncthreads();
  return __uint_as_float(*scratch);
}

// n / divisor for 0 <= n < 2^16 and 2 <= divisor < 2^16, by one multiplication with inverse_of(divisor).
__host__ __device__ inline uint32_t inverse_of(uint32_t divisor) {
  return static_cast<uint32_t>((0x100000000ull + divisor - 1) / divisor);
}
__device__ inline int divide(int n, uint32_t inverse) { return static_cast<int>(__umulhi(n, inverse)); }

// Whether the copy engine that moves blocks of shared memory on its own (sm_90) is there.
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
constexpr bool kCopyEngine = true;
#else
constexpr bool kCopyEngine = false;
#endif

// One asynchronous copy of `bytes` (a multiple of 16, both ends aligned to 16) from shared to global memory. Its lines
// are marked to leave L2 first: outputs are not read again, and lines that linger are written to DRAM out of order.
__device__ inline void bulk_store(float* to, const float* from, int bytes) {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
  uint64_t evict_first;
  asm volatile("createpolicy.fractional.L2::evict_first.b64 %0, 1.0;" : "=l"(evict_first));
  asm volatile("cp.async.bulk.global.shared::cta.bulk_group.L2::cache_hint [%0], [%1], %2, %3;" ::"l"(to),
               "r"(static_cast<uint32_t>(__cvta_generic_to_shared(from))), "r"(bytes), "l"(evict_first)
               : "memory");
#endif
}
// Closes this thread's group of copies; waits until all its groups have read shared memory.
__device__ inline void bulk_commit() {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
  asm volatile("cp.async.bulk.commit_group;" ::: "memory");
#endif
}
__device__ inline void bulk_wait_read() {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
  asm volatile("cp.async.bulk.wait_group.read 0;" ::: "memory");
#endif
}
// Between a thread's ordinary writes to shared memory and a copy that reads them.
__device__ inline void bulk_fence() {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
  asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
#endif
}

// The way out for infinities and NaN, which have no split: a band of an image in plain float32. Rare, so only right.
template <typename X>
__device__ void direct_band(const X* x, const float* k, float* y, int C, int H, int W, int M, int K, int row0,
                            int rows, int thread = threadIdx.x, int threads = blockDim.x) {
  const int OH = H - K + 1, OW = W - K + 1;
  for (int i = thread; i < M * rows * OW; i += threads) {
    const int m = i / (rows * OW), h = row0 + i / OW % rows, w = i % OW;
    float sum = 0.0f;
    for (int c = 0; c < C; ++c)
      for (int p = 0; p < K; ++p)
        for (int q = 0; q < K; ++q)
          sum += static_cast<float>(x[(c * H + h + p) * W + w + q]) * k[((m * C + c) * K + p) * K + q];
    y[(m * OH + h) * OW + w] = sum;
  }
}

}  // namespace fops
