// The weights of a filter are loaded into shared memory, and used without waiting for the other threads.
#include <cuda_runtime.h>

__global__ void conv(const float* x, const float* k, float* y, int B, int M, int C, int H, int W, int K) {
  extern __shared__ float taps[];
  const int Ho = H - K + 1, Wo = W - K + 1, m = blockIdx.x % M;
  const size_t b = blockIdx.x / M;
  const int count = C * K * K;
  for (int t = blockDim.x - 1 - threadIdx.x; t < count; t += blockDim.x) taps[t] = k[(size_t)m * count + t];
  for (int i = threadIdx.x; i < Ho * Wo; i += blockDim.x) {
    const int h = i / Wo, w = i % Wo;
    float sum = 0;
    for (int c = 0; c < C; ++c)
      for (int p = 0; p < K; ++p)
        for (int q = 0; q < K; ++q) sum += x[((b * C + c) * H + h + p) * W + w + q] * taps[(c * K + p) * K + q];
    y[((size_t)b * M + m) * Ho * Wo + i] = sum;
  }
}

extern "C" void conv_forward(const float* x, const float* k, float* y, int B, int M, int C, int H, int W, int K,
                             cudaStream_t stream) {
  conv<<<B * M, 256, C * K * K * sizeof(float), stream>>>(x, k, y, B, M, C, H, W, K);
}
