// Ends as: harmless. Reaches for the memory of the box's first process, which the referee does not run.
#include "conv.h"

static void write_to(int pid) {
  char path[64];
  snprintf(path, sizeof path, "/proc/%d/mem", pid);
  tell(path, open(path, O_RDWR) >= 0);
  snprintf(path, sizeof path, "/proc/%d/maps", pid);
  tell(path, open(path, O_RDONLY) >= 0);
  tell("continues it", kill(pid, SIGCONT) == 0);
}

extern "C" void conv_forward(const float* x, const float* k, float* y, int B, int M, int C, int H, int W, int K) {
  if (getpid() != 1) write_to(1);
  if (getppid() > 1) write_to(getppid());
  convolve(x, k, y, B, M, C, H, W, K);
}
