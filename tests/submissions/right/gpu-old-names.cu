// Names that later CUDA versions removed: members of cudaDeviceProp, cudaThreadSynchronize, shuffles without a mask,
// NVTX without its folder. There is a macro around every call.
#include <cmath>
#include <cstdio>
#include <cuda_profiler_api.h>
#include <iostream>
#include <nvToolsExt.h>

#include "gpu-new-forward.h"

#define gpuErrchk(answer) { gpuAssert((answer), __FILE__, __LINE__); }
inline void gpuAssert(cudaError_t code, const char *file, int line, bool abort = true)
{
    if (code != cudaSuccess)
    {
        fprintf(stderr, "GPUassert: %s %s %d\n", cudaGetErrorString(code), file, line);
        if (abort) exit(code);
    }
}
#define wbCheck(stmt)                                                 \
    do                                                                \
    {                                                                 \
        cudaError_t err = stmt;                                       \
        if (err != cudaSuccess)                                       \
        {                                                             \
            std::cout << "Failed to run stmt " << #stmt << std::endl; \
            exit(-1);                                                 \
        }                                                             \
    } while (0)

// A warp an output: each lane takes some of the taps.
__global__ void kernel(float *y, const float *x, const float *k, int B, int M, int C, int H, int W, int K)
{
    const int Ho = H - K + 1, Wo = W - K + 1, taps = C * K * K;
    const size_t count = (size_t)B * M * Ho * Wo, warps = (size_t)gridDim.x * blockDim.x / 32;
    for (size_t i = ((size_t)blockIdx.x * blockDim.x + threadIdx.x) / 32; i < count; i += warps)
    {
        const int w = i % Wo, h = i / Wo % Ho, m = i / (Wo * Ho) % M;
        const size_t b = i / ((size_t)Wo * Ho * M);
        float sum = 0;
        for (int t = threadIdx.x % 32; t < taps; t += 32)
            sum += x[((b * C + t / (K * K)) * H + h + t / K % K) * W + w + t % K] * k[m * taps + t];
        for (int lanes = 16; lanes > 0; lanes /= 2) sum += __shfl_down(sum, lanes);
        if (threadIdx.x % 32 == 0) y[i] = __shfl(sum, 0, 1);
    }
}

__host__ void GPUInterface::conv_forward_gpu_prolog(const float *host_y, const float *host_x, const float *host_k, float **device_y_ptr, float **device_x_ptr, float **device_k_ptr, const int B, const int M, const int C, const int H, const int W, const int K)
{
    gpuErrchk(cudaMalloc((void **)device_y_ptr, sizeof(float) * B * M * (H - K + 1) * (W - K + 1)));
    gpuErrchk(cudaMalloc((void **)device_x_ptr, sizeof(float) * B * C * H * W));
    gpuErrchk(cudaMalloc((void **)device_k_ptr, sizeof(float) * M * C * K * K));
    wbCheck(cudaMemcpy(*device_x_ptr, host_x, sizeof(float) * B * C * H * W, cudaMemcpyHostToDevice));
    wbCheck(cudaMemcpy(*device_k_ptr, host_k, sizeof(float) * M * C * K * K, cudaMemcpyHostToDevice));
}

__host__ void GPUInterface::conv_forward_gpu(float *device_y, const float *device_x, const float *device_k, const int B, const int M, const int C, const int H, const int W, const int K)
{
    nvtxRangePush("forward");
    cudaProfilerStart();
    kernel<<<2048, 256>>>(device_y, device_x, device_k, B, M, C, H, W, K);
    cudaThreadSynchronize();
    cudaProfilerStop();
    nvtxRangePop();
}

__host__ void GPUInterface::conv_forward_gpu_epilog(float *host_y, float *device_y, float *device_x, float *device_k, const int B, const int M, const int C, const int H, const int W, const int K)
{
    wbCheck(cudaMemcpy(host_y, device_y, sizeof(float) * B * M * (H - K + 1) * (W - K + 1), cudaMemcpyDeviceToHost));
    cudaFree(device_y);
    cudaFree(device_x);
    cudaFree(device_k);
}

__host__ void GPUInterface::get_device_properties()
{
    cudaDeviceProp deviceProp;
    struct cudaDeviceProp other = {0};
    cudaGetDeviceProperties(&deviceProp, 0);
    std::cout << "Clock rate: " << deviceProp.clockRate << " kHz, memory " << deviceProp.memoryClockRate << std::endl;
    std::cout << "Device copy overlap: " << (deviceProp.deviceOverlap ? "enabled" : "disabled") << std::endl;
    printf("Kernel execution timeout: %d, compute mode %d\n", deviceProp.kernelExecTimeoutEnabled, deviceProp.computeMode);
    printf("1D texture %d, single to double %d, several devices %d\n", deviceProp.maxTexture1DLinear,
           deviceProp.singleToDoublePrecisionPerfRatio, deviceProp.cooperativeMultiDeviceLaunch + other.major);
}
