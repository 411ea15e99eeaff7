// Ends as: writes_after_end
#include "conv.h"
extern "C" void conv_forward(const float* x, const float* k, float* y, int B, int M, int C, int H, int W, int K) {
  convolve(x, k, y, B, M, C, H, W, K);
  y[outputs(B, M, H, W, K)] = 0;
}
