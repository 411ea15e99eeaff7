// Template for a CUDA kernel: y[b,m,h,w] = sum over c,p,q of x[b,c,h+p,w+q] * k[m,c,p,q].
// x has shape (B,C,H,W), k (M,C,K,K) and y (B,M,H-K+1,W-K+1); all are float32 in device memory.
#include <cuda_runtime.h>

__global__ void forward(const float* x, const float* k, float* y, int B, int M, int C, int H, int W, int K) {
  const int Ho = H - K + 1, Wo = W - K + 1;
  const long long count = (long long)B * M * Ho * Wo;
  // Each thread computes one output after another, a grid apart.
  for (long long i = blockIdx.x * (long long)blockDim.x + threadIdx.x; i < count; i += (long long)gridDim.x * blockDim.x) {
    const int w = i % Wo, h = i / Wo % Ho, m = i / (Wo * Ho) % M;
    const long long b = i / ((long long)Wo * Ho * M);
    float sum = 0;
    for (int c = 0; c < C; ++c)
      for (int p = 0; p < K; ++p)
        for (int q = 0; q < K; ++q) sum += x[((b * C + c) * H + h + p) * W + w + q] * k[((m * C + c) * K + p) * K + q];
    y[i] = sum;
  }
}

extern "C" void conv_forward(const float* x, const float* k, float* y, int B, int M, int C, int H, int W, int K,
                             cudaStream_t stream) {
  forward<<<65535, 256, 0, stream>>>(x, k, y, B, M, C, H, W, K);
}
