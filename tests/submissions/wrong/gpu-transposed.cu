// p and q exchanged.
#include <cuda_runtime.h>

__global__ void kernel(const float* x, const float* k, float* y, int M, int C, int H, int W, int K) {
  const int Ho = H - K + 1, Wo = W - K + 1, b = blockIdx.x, m = blockIdx.y;
  for (int i = threadIdx.x; i < Ho * Wo; i += blockDim.x) {
    float sum = 0;
    for (int c = 0; c < C; ++c)
      for (int p = 0; p < K; ++p)
        for (int q = 0; q < K; ++q)
          sum += x[((size_t(b) * C + c) * H + i / Wo + p) * W + i % Wo + q] * k[((m * C + c) * K + q) * K + p];
    y[(size_t(b) * M + m) * Ho * Wo + i] = sum;
  }
}

extern "C" void conv_forward(float* x, float* k, float* y, int B, int M, int C, int H, int W, int K) {
  kernel<<<dim3(B, M), 128>>>(x, k, y, M, C, H, W, K);
}
