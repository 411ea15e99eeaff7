// Conditional stores of data that is not read again soon (as by __stcs), with a predicate instead of a branch.
#pragma once

#include <cuda_runtime.h>

namespace fops {

__device__ inline void store_streaming_if(bool valid, float* to, float v) {
  asm volatile("{.reg .pred p; setp.ne.b32 p, %0, 0; @p st.global.cs.f32 [%1], %2;}" ::"r"(static_cast<int>(valid)),
               "l"(to), "f"(v)
               : "memory");
}
// Stores v at `to` if `valid`; then `to` must be on an 8-byte boundary.
__device__ inline void store_streaming_if(bool valid, float* to, float2 v) {
  asm volatile(
      "{.reg .pred p; setp.ne.b32 p, %0, 0; @p st.global.cs.v2.f32 [%1], {%2, %3};}" ::"r"(static_cast<int>(valid)),
      "l"(to), "f"(v.x), "f"(v.y)
      : "memory");
}

}  // namespace fops
