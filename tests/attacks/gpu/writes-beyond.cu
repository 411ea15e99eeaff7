// Ends as: writes_after_end
#include "conv.cuh"
static __global__ void beyond(float* y) { *y = 0; }
extern "C" void conv_forward(const float* x, const float* k, float* y, int B, int M, int C, int H, int W, int K) {
  convolve<<<4096, 256>>>(x, k, y, B, M, C, H, W, K);
  beyond<<<1, 1>>>(y + outputs(B, M, H, W, K));
}
