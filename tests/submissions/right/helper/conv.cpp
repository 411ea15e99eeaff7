// The work is done in a file beside this one.
#include "tile.h"

extern "C" void conv_forward(const float* x, const float* k, float* y, int B, int M, int C, int H, int W, int K) {
  for (int b = 0; b < B; ++b) image(x, k, y, b, M, C, H, W, K);
}
