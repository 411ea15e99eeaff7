// Ends as: harmless. Asks the kernel to hide the process's memory from the referee, or to show it to others.
#include <sys/prctl.h>

#include <sched.h>

#include "conv.h"

extern "C" void conv_forward(const float* x, const float* k, float* y, int B, int M, int C, int H, int W, int K) {
  tell("a process that is not dumpable", prctl(PR_SET_DUMPABLE, 0) == 0);
  tell("a process that any process may trace", prctl(PR_SET_PTRACER, PR_SET_PTRACER_ANY) == 0);
  tell("a file in memory", syscall(SYS_memfd_create, "hidden", 0) >= 0);
  tell("a secret file in memory", syscall(SYS_memfd_secret, 0) >= 0);
  tell("a namespace", syscall(SYS_unshare, CLONE_NEWUSER) == 0);
  convolve(x, k, y, B, M, C, H, W, K);
}
