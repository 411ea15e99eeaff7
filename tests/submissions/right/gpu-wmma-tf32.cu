// Tensor cores through WMMA, operands in tf32: a warp takes 16 filters and 16 outputs of an image.
#include <cmath>
#include <iostream>
#include <mma.h>

#include "gpu-new-forward.h"

using namespace nvcuda;

__global__ void kernel(float *y, const float *x, const float *k, int M, int C, int H, int W, int K) {
  const int Ho = H - K + 1, Wo = W - K + 1, taps = C * K * K;
  const int column = blockIdx.x * 16, row = blockIdx.y * 16;
  const size_t b = blockIdx.z;
  __shared__ float weights[16 * 8], pixels[8 * 16], sums[16 * 16];
  wmma::fragment<wmma::matrix_a, 16, 16, 8, wmma::precision::tf32, wmma::row_major> a;
  wmma::fragment<wmma::matrix_b, 16, 16, 8, wmma::precision::tf32, wmma::row_major> p;
  wmma::fragment<wmma::accumulator, 16, 16, 8, float> c;
  wmma::fill_fragment(c, 0.0f);
  for (int first = 0; first < taps; first += 8) {
    for (int i = threadIdx.x; i < 128; i += 32) {
      const int m = row + i / 8, t = first + i % 8;
      weights[i] = m < M && t < taps ? wmma::__float_to_tf32(k[m * taps + t]) : 0.0f;
      const int tap = first + i / 16, out = column + i % 16;
      pixels[i] = 0;
      if (tap < taps && out < Ho * Wo)
        pixels[i] = wmma::__float_to_tf32(
            x[((b * C + tap / (K * K)) * H + out / Wo + tap / K % K) * W + out % Wo + tap % K]);
    }
    __syncwarp();
    wmma::load_matrix_sync(a, weights, 8);
    wmma::load_matrix_sync(p, pixels, 16);
    wmma::mma_sync(c, a, p, c);
    __syncwarp();
  }
  wmma::store_matrix_sync(sums, c, 16, wmma::mem_row_major);
  __syncwarp();
  for (int i = threadIdx.x; i < 256; i += 32) {
    const int m = row + i / 16, out = column + i % 16;
    if (m < M && out < Ho * Wo) y[(b * M + m) * Ho * Wo + out] = sums[i];
  }
}

__host__ void GPUInterface::conv_forward_gpu_prolog(const float *host_output, const float *host_input, const float *host_mask, float **device_output_ptr, float **device_input_ptr, float **device_mask_ptr, const int Batch, const int Map_out, const int Channel, const int Height, const int Width, const int K) {
  cudaMalloc(device_output_ptr, sizeof(float) * Batch * Map_out * (Height - K + 1) * (Width - K + 1));
  cudaMalloc(device_input_ptr, sizeof(float) * Batch * Channel * Height * Width);
  cudaMalloc(device_mask_ptr, sizeof(float) * Map_out * Channel * K * K);
  cudaMemcpy(*device_input_ptr, host_input, sizeof(float) * Batch * Channel * Height * Width, cudaMemcpyHostToDevice);
  cudaMemcpy(*device_mask_ptr, host_mask, sizeof(float) * Map_out * Channel * K * K, cudaMemcpyHostToDevice);
}

__host__ void GPUInterface::conv_forward_gpu(float *device_output, const float *device_input, const float *device_mask, const int Batch, const int Map_out, const int Channel, const int Height, const int Width, const int K) {
  const int outputs = (Height - K + 1) * (Width - K + 1);
  kernel<<<dim3((outputs + 15) / 16, (Map_out + 15) / 16, Batch), 32>>>(device_output, device_input, device_mask, Map_out, Channel, Height, Width, K);
}

__host__ void GPUInterface::conv_forward_gpu_epilog(float *host_output, float *device_output, float *device_input, float *device_mask, const int Batch, const int Map_out, const int Channel, const int Height, const int Width, const int K) {
  cudaMemcpy(host_output, device_output, sizeof(float) * Batch * Map_out * (Height - K + 1) * (Width - K + 1), cudaMemcpyDeviceToHost);
  cudaFree(device_output);
  cudaFree(device_input);
  cudaFree(device_mask);
}

__host__ void GPUInterface::get_device_properties() {}
