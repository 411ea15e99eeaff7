// The calling thread's last message, and the functions that set it.
#pragma once

#include "fashion_ops.h"

namespace fops {

// Formats the message for this thread and returns `status`, so that a failure is one statement:
//   return fail(FOPS_INVALID, "K is %lld, larger than the image", (long long)c.K);
fops_status fail(fops_status status, const char* format, ...) __attribute__((format(printf, 2, 3)));

// The last message that fail() left in this thread; "" if none.
const char* last_message() noexcept;

// Call in a catch (...) block: turns the exception in flight into a status and a message.
fops_status caught() noexcept;

}  // namespace fops
