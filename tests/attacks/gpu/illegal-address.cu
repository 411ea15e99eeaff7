// Ends as: failed|device_error: ILLEGAL_ADDRESS|illegal
#include "conv.cuh"
static __global__ void writes(float* y) { y[1l << 40] = 1; }
extern "C" void conv_forward(const float* x, const float* k, float* y, int B, int M, int C, int H, int W, int K) { writes<<<1, 1>>>(y); }
