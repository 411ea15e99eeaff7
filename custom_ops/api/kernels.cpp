// The C API: the tables of kernels.
#include "base/status.h"
#include "conv/dispatch.h"

using namespace fops;

extern "C" {

int fops_kernel_count(fops_backend backend) { return kernels_of(backend).count; }

fops_status fops_kernel_describe(fops_backend backend, int index, fops_kernel_info* out) {
  const KernelTable table = kernels_of(backend);
  if (!out || index < 0 || index >= table.count)
    return fail(FOPS_INVALID, "kernel index %d is outside 0 to %d", index, table.count - 1);
  const Kernel& kernel = table.kernels[index];
  *out = {kernel.name, kernel.summary, kernel.takes, kernel.precision};
  return FOPS_OK;
}

}  // extern "C"
