// 32-bit addresses of shared memory, for instructions that do not take generic pointers, and stores by them.
#pragma once

#include <cstdint>

namespace fops {

__device__ inline uint32_t shared_address(const void* p) { return static_cast<uint32_t>(__cvta_generic_to_shared(p)); }

// Store 16 bytes to shared memory with one instruction; the compiler would split `*float4_pointer = ...` into four
// stores. There is a separate function for floats because, if they are stored as words, the compiler does not unroll a
// caller's loop.
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

// Store one or two floats at an address in shared memory if `real`. The instruction has a predicate; for an if
// statement the compiler would use a branch.
__device__ inline void store_shared_if(bool real, uint32_t to, float v) {
  asm volatile(
      "{.reg .pred real; setp.ne.s32 real, %0, 0; @real st.shared.f32 [%1], %2;}" ::"r"(static_cast<int>(real)),
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
