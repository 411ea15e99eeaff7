#include "status.h"

#include <cstdarg>
#include <cstdio>

namespace {
thread_local char message[1024] = "";
}

namespace fops {

fops_status fail(fops_status status, const char* format, ...) {
  va_list args;
  va_start(args, format);
  vsnprintf(message, sizeof message, format, args);
  va_end(args);
  return status;
}

}  // namespace fops

extern "C" const char* fops_last_error(void) { return message; }
