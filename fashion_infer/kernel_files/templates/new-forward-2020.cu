// Template for the GPU kernel of fa2020: conv_forward_gpu gets host tensors and copies them to the device and back itself.
#include <iostream>

#include "gpu-new-forward.h"

// Each block computes the outputs of one image and feature map; its threads share them.
__global__ void conv_forward_kernel(float* output, const float* input, const float* mask, const int Batch,
                                    const int Map_out, const int Channel, const int Height, const int Width,
                                    const int K) {
  const int Height_out = Height - K + 1, Width_out = Width - K + 1;
#define out_4d(i3, i2, i1, i0) output[((size_t(i3) * Map_out + (i2)) * Height_out + (i1)) * Width_out + (i0)]
#define in_4d(i3, i2, i1, i0) input[((size_t(i3) * Channel + (i2)) * Height + (i1)) * Width + (i0)]
#define mask_4d(i3, i2, i1, i0) mask[(((i3) * Channel + (i2)) * K + (i1)) * K + (i0)]
  const int b = blockIdx.x, m = blockIdx.y;
  for (int i = threadIdx.x; i < Height_out * Width_out; i += blockDim.x) {
    const int h = i / Width_out, w = i % Width_out;
    float sum = 0;
    for (int c = 0; c < Channel; ++c)
      for (int p = 0; p < K; ++p)
        for (int q = 0; q < K; ++q) sum += in_4d(b, c, h + p, w + q) * mask_4d(m, c, p, q);
    out_4d(b, m, h, w) = sum;
  }
#undef out_4d
#undef in_4d
#undef mask_4d
}

__host__ void GPUInterface::conv_forward_gpu(float* host_y, const float* host_x, const float* host_k, const int B,
                                             const int M, const int C, const int H, const int W, const int K) {
  const size_t x_bytes = sizeof(float) * B * C * H * W, k_bytes = sizeof(float) * M * C * K * K;
  const size_t y_bytes = sizeof(float) * B * M * (H - K + 1) * (W - K + 1);
  float *x = nullptr, *k = nullptr, *y = nullptr;
  cudaMalloc(&x, x_bytes);
  cudaMalloc(&k, k_bytes);
  cudaMalloc(&y, y_bytes);
  cudaMemcpy(x, host_x, x_bytes, cudaMemcpyHostToDevice);
  cudaMemcpy(k, host_k, k_bytes, cudaMemcpyHostToDevice);
  conv_forward_kernel<<<dim3(B, M), 256>>>(y, x, k, B, M, C, H, W, K);
  cudaMemcpy(host_y, y, y_bytes, cudaMemcpyDeviceToHost);
  cudaFree(x);
  cudaFree(k);
  cudaFree(y);
}
