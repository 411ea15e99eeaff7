// The names of fa2022 and later, half precision, and macros of sizes before the header.
#define B 10000
#define M 16
#define K_ 7
#define TILE_WIDTH 16
#define call(...) __VA_ARGS__
#include <cmath>
#include <iostream>
#include <cuda_fp16.h>
#include <mma.h>
#include "gpu-new-forward.h"
#undef B
#undef M

__global__ void conv_forward_kernel(float *output, const float *input, const float *mask, const int Batch, const int Map_out, const int Channel, const int Height, const int Width, const int K)
{
    const int Height_out = Height - K + 1, Width_out = Width - K + 1;
    const int h = blockIdx.y / ((Width_out - 1) / TILE_WIDTH + 1) * TILE_WIDTH + threadIdx.y;
    const int w = blockIdx.y % ((Width_out - 1) / TILE_WIDTH + 1) * TILE_WIDTH + threadIdx.x;
    const int m = blockIdx.x, b = blockIdx.z;
    if (h >= Height_out || w >= Width_out) return;
    float sum = 0;
    for (int c = 0; c < Channel; c++)
        for (int p = 0; p < K; p++)
            for (int q = 0; q < K; q++)
                sum += __half2float(__hmul(__float2half(input[((b * Channel + c) * Height + h + p) * Width + w + q]),
                                           __float2half(mask[((m * Channel + c) * K + p) * K + q])));
    output[((b * Map_out + m) * Height_out + h) * Width_out + w] = sum;
}

__host__ void GPUInterface::conv_forward_gpu_prolog(const float *host_output, const float *host_input, const float *host_mask, float **device_output_ptr, float **device_input_ptr, float **device_mask_ptr, const int Batch, const int Map_out, const int Channel, const int Height, const int Width, const int K)
{
    cudaMalloc(device_output_ptr, sizeof(float) * Batch * Map_out * (Height - K + 1) * (Width - K + 1));
    cudaMalloc(device_input_ptr, sizeof(float) * Batch * Channel * Height * Width);
    cudaMalloc(device_mask_ptr, sizeof(float) * Map_out * Channel * K * K);
    cudaMemcpy(*device_input_ptr, host_input, sizeof(float) * Batch * Channel * Height * Width, cudaMemcpyHostToDevice);
    cudaMemcpy(*device_mask_ptr, host_mask, sizeof(float) * Map_out * Channel * K * K, cudaMemcpyHostToDevice);
    cudaError_t error = cudaGetLastError();
    if (error != cudaSuccess)
    {
        std::cout << "CUDA error: " << cudaGetErrorString(error) << std::endl;
        exit(-1);
    }
}

__host__ void GPUInterface::conv_forward_gpu(float *device_output, const float *device_input, const float *device_mask, const int Batch, const int Map_out, const int Channel, const int Height, const int Width, const int K)
{
    const int tiles = ((Height - K) / TILE_WIDTH + 1) * ((Width - K) / TILE_WIDTH + 1);
    conv_forward_kernel<<<dim3(Map_out, tiles, Batch), dim3(TILE_WIDTH, TILE_WIDTH)>>>(device_output, device_input, device_mask, Batch, Map_out, Channel, Height, Width, K);
}

__host__ void GPUInterface::conv_forward_gpu_epilog(float *host_output, float *device_output, float *device_input, float *device_mask, const int Batch, const int Map_out, const int Channel, const int Height, const int Width, const int K)
{
    cudaMemcpy(host_output, device_output, sizeof(float) * Batch * Map_out * (Height - K + 1) * (Width - K + 1), cudaMemcpyDeviceToHost);
    cudaFree(device_output);
    cudaFree(device_input);
    cudaFree(device_mask);
}

__host__ void GPUInterface::get_device_properties()
{
    int deviceCount;
    cudaGetDeviceCount(&deviceCount);
    for (int dev = 0; dev < deviceCount; dev++)
    {
        cudaDeviceProp deviceProp;
        cudaGetDeviceProperties(&deviceProp, dev);
        std::cout << "Device " << dev << " name: " << deviceProp.name << std::endl;
        std::cout << "Max grid dimensions: " << deviceProp.maxGridSize[0] << " x" << std::endl;
    }
}
#define h 1
