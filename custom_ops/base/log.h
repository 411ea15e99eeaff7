// The op-time log: a bounded queue of finished forward passes, oldest first.
#pragma once

#include "fashion_ops.h"

namespace fops {

// Adds one finished pass to the log; does nothing if first_node is FOPS_NOT_LOGGED. The log stores the pointer `kernel`,
// so the string must live as long as the library.
void log_op(int32_t first_node, int32_t last_node, const char* kernel, const fops_conv& conv, double seconds,
            double upload, double download, double layer_seconds = 0, uint32_t findings = 0) noexcept;

// As fops_log_size and fops_log_drain (fashion_ops.h).
int log_size();
int log_drain(fops_op_record* out, int capacity);

}  // namespace fops
