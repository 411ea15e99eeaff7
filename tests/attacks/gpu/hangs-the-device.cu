// Ends as: time_limit|hangs
#include "conv.cuh"
static __global__ void spins(volatile float* y) { while (y[0] != 12345.f) {} }
extern "C" void conv_forward(const float* x, const float* k, float* y, int B, int M, int C, int H, int W, int K) { spins<<<132, 1024>>>(y); }
