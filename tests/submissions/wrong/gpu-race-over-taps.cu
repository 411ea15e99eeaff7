// Threads share the taps, and add to the same outputs without atomics.
#include <cuda_runtime.h>

// A warp per tap; its lanes are neighbouring outputs.
__global__ void conv(const float* x, const float* k, float* y, int B, int M, int C, int H, int W, int K) {
  const int Ho = H - K + 1, Wo = W - K + 1, p = threadIdx.y / K, q = threadIdx.y % K;
  const size_t i = blockIdx.x * (size_t)blockDim.x + threadIdx.x, outputs = (size_t)B * M * Ho * Wo;
  const int w = i % Wo, h = i / Wo % Ho, m = i / ((size_t)Wo * Ho) % M;
  const size_t b = i / ((size_t)Wo * Ho * M);
  if (i < outputs && threadIdx.y == 0) y[i] = 0;
  __syncthreads();
  if (i < outputs)
    for (int c = 0; c < C; ++c) y[i] += x[((b * C + c) * H + h + p) * W + w + q] * k[((m * C + c) * K + p) * K + q];
}

extern "C" void conv_forward(const float* x, const float* k, float* y, int B, int M, int C, int H, int W, int K,
                             cudaStream_t stream) {
  const int outputs = B * M * (H - K + 1) * (W - K + 1);
  conv<<<(outputs + 31) / 32, dim3(32, K * K), 0, stream>>>(x, k, y, B, M, C, H, W, K);
}
