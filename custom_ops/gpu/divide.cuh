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

// Division of numbers below 2^31 by one of 1 to 2^31: one wide multiplication. With l the bits of divisor - 1 and
// factor = ceil(2^(31 + l) / divisor), n factor is less than 2^(31 + l) away from n 2^(31 + l) / divisor, for
// factor divisor - 2^(31 + l) < 2^l (Granlund and Montgomery, 1994).
struct Divisor {
  uint32_t factor;
  int shift;
  Divisor() = default;
  __host__ explicit Divisor(uint32_t divisor) : shift(31) {
    while ((uint64_t{1} << (shift - 31)) < divisor) ++shift;
    factor = static_cast<uint32_t>(((uint64_t{1} << shift) + divisor - 1) / divisor);
  }
  __host__ __device__ uint32_t divide(uint32_t n) const { return static_cast<uint32_t>(uint64_t{n} * factor >> shift); }
};

}  // namespace fops
