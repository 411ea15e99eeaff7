// fa2020, copies inside: weights in constant memory as half, exit(-1) on an error, properties asked for on every call.
#include <cmath>
#include <iostream>

#include "gpu-new-forward.h"
#include "cuda_fp16.h"
#define TILE_WIDTH 16

__constant__ half weights[24 * 12 * 49];

__global__ void forward_kernel(float *y, const float *x, const int B, const int M, const int C, const int H, const int W, const int K)
{
    const int H_out = H - K + 1, W_out = W - K + 1, W_grid = ceil(W_out * 1.0 / TILE_WIDTH);
#define y4d(i3, i2, i1, i0) y[(i3) * (M * H_out * W_out) + (i2) * (H_out * W_out) + (i1) * (W_out) + i0]
#define x4d(i3, i2, i1, i0) x[(i3) * (C * H * W) + (i2) * (H * W) + (i1) * (W) + i0]
#define k4d(i3, i2, i1, i0) weights[(i3) * (C * K * K) + (i2) * (K * K) + (i1) * (K) + i0]
    const int b = blockIdx.x, m = blockIdx.y;
    const int h = blockIdx.z / W_grid * TILE_WIDTH + threadIdx.y, w = blockIdx.z % W_grid * TILE_WIDTH + threadIdx.x;
    if (h >= H_out || w >= W_out) return;
    float acc = 0;
    for (int c = 0; c < C; c++)
        for (int p = 0; p < K; p++)
            for (int q = 0; q < K; q++) acc += x4d(b, c, h + p, w + q) * __half2float(k4d(m, c, p, q));
    y4d(b, m, h, w) = acc;
#undef y4d
#undef x4d
#undef k4d
}

__host__ void GPUInterface::conv_forward_gpu(float *host_y, const float *host_x, const float *host_k, const int B, const int M, const int C, const int H, const int W, const int K)
{
    const size_t out = (size_t)B * M * (H - K + 1) * (W - K + 1), in = (size_t)B * C * H * W;
    float *device_y, *device_x;
    half *half_k = (half *)malloc(M * C * K * K * sizeof(half));
    for (int i = 0; i < M * C * K * K; i++) half_k[i] = __float2half(host_k[i]);
    get_device_properties();
    cudaMalloc((void **)&device_y, out * sizeof(float));
    cudaMalloc((void **)&device_x, in * sizeof(float));
    cudaMemcpy(device_x, host_x, in * sizeof(float), cudaMemcpyHostToDevice);
    cudaMemcpyToSymbol(weights, half_k, M * C * K * K * sizeof(half));
    const int Z = ceil((H - K + 1) * 1.0 / TILE_WIDTH) * ceil((W - K + 1) * 1.0 / TILE_WIDTH);
    forward_kernel<<<dim3(B, M, Z), dim3(TILE_WIDTH, TILE_WIDTH, 1)>>>(device_y, device_x, B, M, C, H, W, K);
    cudaMemcpy(host_y, device_y, out * sizeof(float), cudaMemcpyDeviceToHost);
    cudaFree(device_y);
    cudaFree(device_x);
    free(half_k);
    cudaError_t error = cudaGetLastError();
    if (error != cudaSuccess)
    {
        std::cout << "CUDA error: " << cudaGetErrorString(error) << std::endl;
        exit(-1);
    }
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
    }
}
