// Template for the GPU kernel of fa2023, with stride S. Prolog allocates device memory and copies the inputs to it, forward
// computes, and epilog copies the outputs back and frees the memory. Op Time is the time of forward alone.
#include <iostream>

#include "gpu-new-forward.h"

// Each block computes the outputs of one image and feature map; its threads share them.
__global__ void conv_forward_kernel(float* output, const float* input, const float* mask, const int Batch,
                                    const int Map_out, const int Channel, const int Height, const int Width,
                                    const int K, const int S) {
  const int Height_out = (Height - K) / S + 1, Width_out = (Width - K) / S + 1;
#define out_4d(i3, i2, i1, i0) output[((size_t(i3) * Map_out + (i2)) * Height_out + (i1)) * Width_out + (i0)]
#define in_4d(i3, i2, i1, i0) input[((size_t(i3) * Channel + (i2)) * Height + (i1)) * Width + (i0)]
#define mask_4d(i3, i2, i1, i0) mask[(((i3) * Channel + (i2)) * K + (i1)) * K + (i0)]
  const int b = blockIdx.x, m = blockIdx.y;
  for (int i = threadIdx.x; i < Height_out * Width_out; i += blockDim.x) {
    const int h = i / Width_out, w = i % Width_out;
    float sum = 0;
    for (int c = 0; c < Channel; ++c)
      for (int p = 0; p < K; ++p)
        for (int q = 0; q < K; ++q) sum += in_4d(b, c, h * S + p, w * S + q) * mask_4d(m, c, p, q);
    out_4d(b, m, h, w) = sum;
  }
#undef out_4d
#undef in_4d
#undef mask_4d
}

__host__ void GPUInterface::conv_forward_gpu_prolog(const float* host_output, const float* host_input,
                                                    const float* host_mask, float** device_output_ptr,
                                                    float** device_input_ptr, float** device_mask_ptr, const int Batch,
                                                    const int Map_out, const int Channel, const int Height,
                                                    const int Width, const int K, const int S) {
  const size_t input = sizeof(float) * Batch * Channel * Height * Width;
  const size_t mask = sizeof(float) * Map_out * Channel * K * K;
  const size_t output = sizeof(float) * Batch * Map_out * ((Height - K) / S + 1) * ((Width - K) / S + 1);
  cudaMalloc(device_output_ptr, output);
  cudaMalloc(device_input_ptr, input);
  cudaMalloc(device_mask_ptr, mask);
  cudaMemcpy(*device_input_ptr, host_input, input, cudaMemcpyHostToDevice);
  cudaMemcpy(*device_mask_ptr, host_mask, mask, cudaMemcpyHostToDevice);
}

__host__ void GPUInterface::conv_forward_gpu(float* device_output, const float* device_input, const float* device_mask,
                                             const int Batch, const int Map_out, const int Channel, const int Height,
                                             const int Width, const int K, const int S) {
  conv_forward_kernel<<<dim3(Batch, Map_out), 256>>>(device_output, device_input, device_mask, Batch, Map_out, Channel,
                                                     Height, Width, K, S);
}

__host__ void GPUInterface::conv_forward_gpu_epilog(float* host_output, float* device_output, float* device_input,
                                                    float* device_mask, const int Batch, const int Map_out,
                                                    const int Channel, const int Height, const int Width,
                                                    const int K, const int S) {
  const size_t output = sizeof(float) * Batch * Map_out * ((Height - K) / S + 1) * ((Width - K) / S + 1);
  cudaMemcpy(host_output, device_output, output, cudaMemcpyDeviceToHost);
  cudaFree(device_output);
  cudaFree(device_input);
  cudaFree(device_mask);
}
