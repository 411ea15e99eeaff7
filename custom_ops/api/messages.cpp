// The C API: the message of the last failure, and a description of this build.
#include <string>

#include "base/isa.h"
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

}  // extern "C"
