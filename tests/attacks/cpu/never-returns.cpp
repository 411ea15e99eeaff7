// Ends as: time_limit|hangs
#include "conv.h"
extern "C" void conv_forward(const float* x, const float* k, float* y, int B, int M, int C, int H, int W, int K) {
  for (int signal_number = 1; signal_number < 32; ++signal_number) signal(signal_number, SIG_IGN);
  for (;;) pause();
}
