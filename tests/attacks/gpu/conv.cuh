// A right convolution on the device, and what the attacks share.
#pragma once

#include <cstdio>
#include <cstdlib>
#include <cstring>

#include <cuda_runtime.h>
#include <dlfcn.h>
#include <pthread.h>
#include <sys/mman.h>
#include <unistd.h>

static __global__ void convolve(const float* x, const float* k, float* y, int B, int M, int C, int H, int W, int K) {
  const int Ho = H - K + 1, Wo = W - K + 1;
  const long n = long(B) * M * Ho * Wo;
  for (long i = blockIdx.x * long(blockDim.x) + threadIdx.x; i < n; i += long(gridDim.x) * blockDim.x) {
    const long w = i % Wo, h = i / Wo % Ho, m = i / (long(Wo) * Ho) % M, b = i / (long(Wo) * Ho * M);
    float sum = 0;
    for (int c = 0; c < C; ++c)
      for (int p = 0; p < K; ++p)
        for (int q = 0; q < K; ++q) sum += x[((b * C + c) * H + h + p) * W + w + q] * k[((m * C + c) * K + p) * K + q];
    y[i] = sum;
  }
}

static inline long outputs(int B, int M, int H, int W, int K) { return long(B) * M * (H - K + 1) * (W - K + 1); }

static inline void tell(const char* what, bool got_through) {
  printf("%s: %s\n", what, got_through ? "GOT THROUGH" : "stopped");
  fflush(stdout);
}
