// The C API: the number of CPU threads, and the name of the instruction set in use.
#include "base/isa.h"
#include "base/status.h"
#include "base/thread_pool.h"

extern "C" {

fops_status fops_set_threads(int threads) {
  if (threads < 0 || threads > 1024)
    return fops::fail(FOPS_INVALID, "threads must be 0 (the default) to 1024, not %d", threads);
  fops::set_pool_threads(threads);
  return FOPS_OK;
}

int fops_get_threads(void) { return fops::pool_threads(); }

const char* fops_cpu_isa(void) { return fops::isa_name(); }

}  // extern "C"
