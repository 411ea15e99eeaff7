// Division of small numbers by one that the host knows.
#pragma once

#include <cuda_runtime.h>

#include <cstdint>

namespace fops {

// n / divisor for 0 <= n < 2^16 and 2 <= divisor < 2^16, by one multiplication with inverse_of(divisor).
__host__ __device__ inline uint32_t inverse_of(uint32_t divisor) {
  return static_cast<uint32_t>((0x100000000ull + divisor - 1) / divisor);
}
__device__ inline int divide(int n, uint32_t inverse) { return static_cast<int>(__umulhi(n, inverse)); }

}  // namespace fops
