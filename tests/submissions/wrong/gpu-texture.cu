// A texture reference, which left CUDA with version 12.
#include <cuda_runtime.h>

texture<float, 1, cudaReadModeElementType> pixels;

__global__ void kernel(float *y) { y[0] = tex1Dfetch(pixels, 0); }

extern "C" void conv_forward(const float *x, const float *k, float *y, int B, int M, int C, int H, int W, int K) {
  cudaBindTexture(0, pixels, x, sizeof(float) * B * C * H * W);
  kernel<<<1, 1>>>(y);
}
