// Ends as: memory_limit|crash
#include "conv.h"
extern "C" void conv_forward(const float* x, const float* k, float* y, int B, int M, int C, int H, int W, int K) {
  for (;;) memset(malloc(1 << 22), 1, 1 << 22);
}
