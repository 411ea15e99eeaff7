// Scratch memory that a thread keeps from one pass to the next: memory fresh from the system costs a page fault for
// every 4 KB.
#pragma once

#include <cstdint>

namespace fops {

// At least `bytes` bytes, aligned to 64, which the calling thread may use until its next call; null if out of memory.
// The contents are undefined.
void* scratch(int64_t bytes);

}  // namespace fops
