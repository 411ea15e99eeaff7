#include "base/status.h"

#include <cstdarg>
#include <cstdio>
#include <exception>
#include <new>

namespace fops {
namespace {
thread_local char message[1024] = "";
}

fops_status fail(fops_status status, const char* format, ...) {
  va_list args;
  va_start(args, format);
  vsnprintf(message, sizeof message, format, args);
  va_end(args);
  return status;
}

const char* last_message() noexcept { return message; }

fops_status caught() noexcept {
  try {
    throw;
  } catch (const std::bad_alloc&) {
    return fail(FOPS_OUT_OF_MEMORY, "out of host memory; use a smaller batch");
  } catch (const std::exception& e) {
    return fail(FOPS_DEVICE_ERROR, "operator library: %s", e.what());
  } catch (...) {
    return fail(FOPS_DEVICE_ERROR, "operator library: unknown failure");
  }
}

}  // namespace fops
