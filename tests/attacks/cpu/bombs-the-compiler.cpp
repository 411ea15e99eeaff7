// Ends as: refused: does not build
#include "conv.h"
#define A(x) x x x x x x x x x x
#define D(x) A(A(x))
#define G(x) D(D(D(D(x))))
int bomb = 0 G(G(+1));
extern "C" void conv_forward(const float* x, const float* k, float* y, int B, int M, int C, int H, int W, int K) { convolve(x, k, y, B, M, C, H, W, K); }
