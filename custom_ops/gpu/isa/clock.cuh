// The device's clock.
#pragma once

#include <cstdint>

namespace fops {

// Returns the device's global time in nanoseconds, which is the same on all SMs. The interval between ticks depends on
// the GPU.
__device__ inline uint64_t device_nanoseconds() {
  uint64_t now;
  asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(now));
  return now;
}

}  // namespace fops
