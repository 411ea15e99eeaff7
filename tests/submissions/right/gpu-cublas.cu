// Plain C: the input unrolled, then a matrix product of cuBLAS for each image.
#include <cublas_v2.h>
#include <cuda_runtime.h>

__global__ void unroll(const float *x, float *u, int C, int H, int W, int K) {
  const int Ho = H - K + 1, Wo = W - K + 1, n = Ho * Wo;
  for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < C * K * K * n; i += gridDim.x * blockDim.x) {
    const int tap = i / n, out = i % n;
    u[i] = x[(tap / (K * K) * H + out / Wo + tap / K % K) * W + out % Wo + tap % K];
  }
}

extern "C" void conv_forward(const float *x, const float *k, float *y, int B, int M, int C, int H, int W, int K) {
  const int n = (H - K + 1) * (W - K + 1), taps = C * K * K;
  const float one = 1, zero = 0;
  float *u;
  cublasHandle_t handle;
  cublasCreate(&handle);
  cublasSetMathMode(handle, CUBLAS_PEDANTIC_MATH);
  cudaMalloc(&u, sizeof(float) * taps * n);
  for (size_t b = 0; b < B; ++b) {
    unroll<<<256, 256>>>(x + b * C * H * W, u, C, H, W, K);
    cublasSgemm(handle, CUBLAS_OP_N, CUBLAS_OP_N, n, M, taps, &one, u, n, k, taps, &zero, y + b * M * n, n);
  }
  cudaFree(u);
  cublasDestroy(handle);
}
