// The C API: reads the op-time log.
#include "base/log.h"

extern "C" {

int fops_log_size(void) { return fops::log_size(); }

int fops_log_drain(fops_op_record* out, int capacity) { return fops::log_drain(out, capacity); }

}  // extern "C"
