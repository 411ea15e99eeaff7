// The calling thread's last message, and the one way to leave it.
#pragma once

#include "fashion_ops.h"

namespace fops {

// Formats the message for this thread and returns `status`, so that a failure is one statement:
//   return fail(FOPS_INVALID, "K is %lld, larger than the image", (long long)c.K);
fops_status fail(fops_status status, const char* format, ...) __attribute__((format(printf, 2, 3)));

// Puts one finished pass into the op-time log. Does nothing when `layer` is null.
void log_op(const char* layer, const char* kernel, const fops_conv& conv, double seconds, double upload,
            double download) noexcept;

}  // namespace fops
