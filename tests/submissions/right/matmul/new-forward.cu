// Unrolls the input in global memory, and computes a matrix product with the kernel in matmul.cu.
#include <cmath>
#include <iostream>

#include "gpu-new-forward.h"
#include "matmul.h"

__global__ void unroll(const float *input, float *output, int Channel, int Height, int Width, int K)
{
    const int Width_out = Width - K + 1, n = (Height - K + 1) * Width_out;
    const size_t b = blockIdx.y;
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < Channel * K * K * n; i += gridDim.x * blockDim.x)
    {
        const int tap = i / n, out = i % n;
        output[b * Channel * K * K * n + i] = input[((b * Channel + tap / (K * K)) * Height + out / Width_out + tap / K % K) * Width + out % Width_out + tap % K];
    }
}

__host__ void GPUInterface::conv_forward_gpu_prolog(const float *host_output, const float *host_input, const float *host_mask, float **device_output_ptr, float **device_input_ptr, float **device_mask_ptr, const int Batch, const int Map_out, const int Channel, const int Height, const int Width, const int K)
{
    cudaMalloc((void **)device_output_ptr, (size_t)Batch * Map_out * (Height - K + 1) * (Width - K + 1) * sizeof(float));
    cudaMalloc((void **)device_input_ptr, (size_t)Batch * Channel * Height * Width * sizeof(float));
    cudaMalloc((void **)device_mask_ptr, (size_t)Map_out * Channel * K * K * sizeof(float));
    cudaMemcpy(*device_input_ptr, host_input, (size_t)Batch * Channel * Height * Width * sizeof(float), cudaMemcpyHostToDevice);
    cudaMemcpy(*device_mask_ptr, host_mask, (size_t)Map_out * Channel * K * K * sizeof(float), cudaMemcpyHostToDevice);
}

__host__ void GPUInterface::conv_forward_gpu(float *device_output, const float *device_input, const float *device_mask, const int Batch, const int Map_out, const int Channel, const int Height, const int Width, const int K)
{
    const int n = (Height - K + 1) * (Width - K + 1), taps = Channel * K * K;
    float *unrolled;
    cudaMalloc((void **)&unrolled, (size_t)Batch * taps * n * sizeof(float));
    unroll<<<dim3(64, Batch), 256>>>(device_input, unrolled, Channel, Height, Width, K);
    const dim3 grid((n - 1) / MATMUL_TILE_WIDTH + 1, (Map_out - 1) / MATMUL_TILE_WIDTH + 1, Batch);
    matrixMultiply<<<grid, dim3(MATMUL_TILE_WIDTH, MATMUL_TILE_WIDTH)>>>(device_mask, unrolled, device_output, Map_out, taps, n);
    cudaFree(unrolled);
}

__host__ void GPUInterface::conv_forward_gpu_epilog(float *host_output, float *device_output, float *device_input, float *device_mask, const int Batch, const int Map_out, const int Channel, const int Height, const int Width, const int K)
{
    cudaMemcpy(host_output, device_output, (size_t)Batch * Map_out * (Height - K + 1) * (Width - K + 1) * sizeof(float), cudaMemcpyDeviceToHost);
    cudaFree(device_output);
    cudaFree(device_input);
    cudaFree(device_mask);
}

__host__ void GPUInterface::get_device_properties() {}
