// Scratch memory that a thread keeps from one pass to the next: memory fresh from the system costs a page fault for
// every 4 KB.
#pragma once

#include <cstdint>

namespace fops {

// At least `bytes` bytes at an address that 64 divides, the calling thread's until its next call; null when out of
// memory. What is in it is left over.
void* scratch(int64_t bytes);

}  // namespace fops
