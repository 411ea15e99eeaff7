// The C API: the message of the last failure, a description of this build, the op-time log, and the CPU threads.
#include <string>

#include "base/isa.h"
#include "base/log.h"
#include "base/status.h"
#include "base/thread_pool.h"

#ifndef FOPS_VERSION
#define FOPS_VERSION "unknown"
#endif
#ifndef FOPS_CUDA_ARCHS
#define FOPS_CUDA_ARCHS ""
#endif
#ifndef FOPS_CUDA_VERSION
#define FOPS_CUDA_VERSION ""
#endif

extern "C" {

const char* fops_last_error(void) { return fops::last_message(); }

const char* fops_build_info(void) {
#ifdef FOPS_WITH_CUDA
  constexpr char cuda[] = FOPS_CUDA_VERSION " (" FOPS_CUDA_ARCHS ")";
#else
  constexpr char cuda[] = "none";
#endif
#define FOPS_PLUS(set) "+" #set
  constexpr char sets[] = FOPS_EACH_ISA(FOPS_PLUS);
#undef FOPS_PLUS
  static const std::string info =
      std::string("fashion_ops " FOPS_VERSION ", gcc " __VERSION__ ", cpu ") + &sets[1] + ", cuda " + cuda;
  return info.c_str();
}

int fops_log_size(void) { return fops::log_size(); }

int fops_log_drain(fops_op_record* out, int capacity) { return fops::log_drain(out, capacity); }

fops_status fops_set_threads(int threads) {
  if (threads < 0 || threads > 1024)
    return fops::fail(FOPS_INVALID, "threads must be 0 (the default) to 1024, not %d", threads);
  fops::set_pool_threads(threads);
  return FOPS_OK;
}

int fops_get_threads(void) { return fops::pool_threads(); }

const char* fops_cpu_isa(void) { return fops::isa_name(); }

}  // extern "C"
