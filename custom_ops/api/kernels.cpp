// The C API: the tables of kernels, and the registration and examination of kernels from outside the library.
#include "base/status.h"
#include "conv/plugin.h"

using namespace fops;

extern "C" {

int fops_kernel_count(fops_backend backend) { return kernel_count(backend); }

fops_status fops_kernel_describe(fops_backend backend, int index, fops_kernel_info* out) {
  const Kernel* kernel = kernel_at(backend, index);
  if (!out || !kernel)
    return fail(FOPS_INVALID, "kernel index %d is outside 0 to %d", index, kernel_count(backend) - 1);
  *out = {kernel->name, kernel->summary, kernel->takes, kernel->precision};
  return FOPS_OK;
}

fops_status fops_register_kernel(const char* name, const fops_kernel_plugin* plugin) {
  return guarded([=] { return register_kernel(name, plugin); });
}

void fops_examine(int asked) { examine(asked); }

}  // extern "C"
