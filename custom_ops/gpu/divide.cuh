// Division on the device by a divisor that is known on the host, without a division instruction. This header can be
// compiled as plain C++ and as CUDA.
#pragma once

#include <cstdint>

// For functions on both host and device, in headers that plain C++ compilers compile too.
#ifdef __CUDACC__
#define FOPS_HOST_DEVICE __host__ __device__
#else
#define FOPS_HOST_DEVICE
#endif

namespace fops {

FOPS_HOST_DEVICE constexpr long long ceil_div(long long a, long long b) { return (a + b - 1) / b; }

// divide(n, inverse_of(divisor)) is n / divisor for 0 <= n < 2^16 and 2 <= divisor < 2^16, by one multiplication.
FOPS_HOST_DEVICE inline uint32_t inverse_of(uint32_t divisor) {
  return static_cast<uint32_t>((0x100000000ull + divisor - 1) / divisor);
}
FOPS_HOST_DEVICE inline int divide(int n, uint32_t inverse) {
#ifdef __CUDA_ARCH__
  return static_cast<int>(__umulhi(n, inverse));
#else
  return static_cast<int>(uint64_t{static_cast<uint32_t>(n)} * inverse >> 32);
#endif
}

// Division of numbers below 2^31 by a divisor from 1 to 2^31, by one multiplication of 32 by 32 bits. Let l be the
// number of bits of divisor - 1, and factor = ceil(2^(31 + l) / divisor). Then 0 <= factor * divisor - 2^(31 + l) <
// 2^l, so the quotient is exact (Granlund and Montgomery, 1994).
struct Divisor {
  uint32_t factor;
  int shift;
  Divisor() = default;
  explicit Divisor(uint32_t divisor) : shift(31) {
    while ((uint64_t{1} << (shift - 31)) < divisor) ++shift;
    factor = static_cast<uint32_t>(((uint64_t{1} << shift) + divisor - 1) / divisor);
  }
  FOPS_HOST_DEVICE uint32_t divide(uint32_t n) const { return static_cast<uint32_t>(uint64_t{n} * factor >> shift); }
};

}  // namespace fops
