// Shared memory by 32-bit addresses, for instructions that do not take generic pointers.
#pragma once

#include <cstdint>

namespace fops {

__device__ inline uint32_t shared_address(const void* p) { return static_cast<uint32_t>(__cvta_generic_to_shared(p)); }

// 16-byte stores to shared memory, written out because the compiler splits `*float4_pointer = ...` into four stores
// here. Floats have a separate function: stored as words, they keep the compiler from unrolling a loop of step 12.
__device__ inline void store_shared(uint32_t* to, const uint32_t* v) {
  asm volatile("st.shared.v4.u32 [%0], {%1, %2, %3, %4};" ::"r"(shared_address(to)), "r"(v[0]), "r"(v[1]), "r"(v[2]),
               "r"(v[3])
               : "memory");
}
__device__ inline void store_shared(float* to, float4 v) {
  asm volatile("st.shared.v4.f32 [%0], {%1, %2, %3, %4};" ::"r"(shared_address(to)), "f"(v.x), "f"(v.y), "f"(v.z),
               "f"(v.w)
               : "memory");
}

// Stores to an address in shared memory if `real`, with a predicate, because the compiler would branch on `if (real)
// ...`.
__device__ inline void store_shared_if(bool real, uint32_t to, float v) {
  asm volatile("{.reg .pred real; setp.ne.s32 real, %0, 0; @real st.shared.f32 [%1], %2;}" ::"r"(
                   static_cast<int>(real)),
               "r"(to), "f"(v)
               : "memory");
}
__device__ inline void store_shared_if(bool real, uint32_t to, float a, float b) {
  asm volatile("{.reg .pred real; setp.ne.s32 real, %0, 0; @real st.shared.v2.f32 [%1], {%2, %3};}" ::"r"(
                   static_cast<int>(real)),
               "r"(to), "f"(a), "f"(b)
               : "memory");
}

}  // namespace fops
