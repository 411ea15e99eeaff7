// Includes a header from the submission's folder; the header's class has members.
#include <cstdio>
#include <cstdlib>
#include <iostream>

#include "gpu-new-forward.h"

__global__ void kernel(float* y, const float* x, const float* k, int B, int M, int C, int H, int W, int K) {
  const int Ho = H - K + 1, Wo = W - K + 1;
  const int b = blockIdx.x, m = blockIdx.y;
  for (int i = threadIdx.x; i < Ho * Wo; i += blockDim.x) {
    const int h = i / Wo, w = i % Wo;
    float sum = 0;
    for (int c = 0; c < C; ++c)
      for (int p = 0; p < K; ++p)
        for (int q = 0; q < K; ++q)
          sum += x[((size_t(b) * C + c) * H + h + p) * W + w + q] * k[((m * C + c) * K + p) * K + q];
    y[((size_t(b) * M + m) * Ho + h) * Wo + w] = sum;
  }
}

__host__ void GPUInterface::conv_forward_gpu_prolog(const float *host_y, const float *host_x, const float *host_k,
    float **device_y_ptr, float **device_x_ptr, float **device_k_ptr, const int B, const int M, const int C, const int H, const int W, const int K) {
  cudaMalloc((void **)device_y_ptr, sizeof(float) * B * M * (H - K + 1) * (W - K + 1));
  cudaMalloc((void **)device_x_ptr, sizeof(float) * B * C * H * W);
  cudaMemcpy(*device_x_ptr, host_x, sizeof(float) * B * C * H * W, cudaMemcpyHostToDevice);
  cudaMalloc((void **)device_k_ptr, sizeof(float) * M * C * K * K);
  cudaMemcpy(*device_k_ptr, host_k, sizeof(float) * M * C * K * K, cudaMemcpyHostToDevice);
  images = B;
}

__host__ void GPUInterface::conv_forward_gpu(float *device_y, const float *device_x, const float *device_k,
    const int B, const int M, const int C, const int H, const int W, const int K) {
  kernel<<<dim3(images, M), 256>>>(device_y, device_x, device_k, B, M, C, H, W, K);
}

__host__ void GPUInterface::conv_forward_gpu_epilog(float *host_y, float *device_y, float *device_x, float *device_k,
    const int B, const int M, const int C, const int H, const int W, const int K) {
  cudaMemcpy(host_y, device_y, sizeof(float) * B * M * (H - K + 1) * (W - K + 1), cudaMemcpyDeviceToHost);
  cudaFree(device_y);
  cudaFree(device_x);
  cudaFree(device_k);
}
