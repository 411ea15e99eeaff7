// The last message of the calling thread, and the functions that set it.
#pragma once

#include "fashion_ops.h"

namespace fops {

// Sets the calling thread's message and returns `status`, so that one statement reports a failure:
//   return fail(FOPS_INVALID, "K is %lld, larger than the image", (long long)c.K);
fops_status fail(fops_status status, const char* format, ...) __attribute__((format(printf, 2, 3)));

const char* last_message() noexcept;

// Sets the message for the exception that is being handled, and returns its status. Call it in a catch (...) block.
fops_status caught() noexcept;

// Returns body(), or the status of the exception that it throws.
template <typename F>
fops_status guarded(F body) noexcept {
  try {
    return body();
  } catch (...) {
    return caught();
  }
}

}  // namespace fops
