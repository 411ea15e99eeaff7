// Ends as: failed|device_error: ASSERT|assert
#include <cassert>

#include "conv.cuh"
static __global__ void fails() { assert(false); }
extern "C" void conv_forward(const float* x, const float* k, float* y, int B, int M, int C, int H, int W, int K) { fails<<<1, 1>>>(); }
