// The C API: the last failure, and what this build is.
#include "base/status.h"

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
  return "fashion_ops " FOPS_VERSION ", gcc " __VERSION__ ", cpu generic+avx2+avx512, cuda "
#ifdef FOPS_WITH_CUDA
      FOPS_CUDA_VERSION " (" FOPS_CUDA_ARCHS ")";
#else
         "none";
#endif
}

}  // extern "C"
