#include "base/scratch.h"

#include <cstdlib>
#include <memory>

namespace fops {

void* scratch(int64_t bytes) {
  struct Free {
    void operator()(void* p) const { free(p); }
  };
  thread_local std::unique_ptr<void, Free> memory;
  thread_local int64_t size = 0;
  if (bytes > size) {
    memory.reset();  // frees the old memory before the new memory is allocated
    memory.reset(aligned_alloc(64, static_cast<size_t>(bytes + 63) / 64 * 64));
    size = memory ? bytes : 0;
  }
  return memory.get();
}

}  // namespace fops
