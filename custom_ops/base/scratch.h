// Scratch memory that a thread keeps from one pass to the next, because new memory from the system costs a page fault
// for every 4 KB.
#pragma once

#include <cstdint>

namespace fops {

// Returns at least `bytes` bytes, aligned to 64 bytes, or null if out of memory. The calling thread may use them until
// its next call of scratch(). The contents are undefined.
void* scratch(int64_t bytes);

}  // namespace fops
