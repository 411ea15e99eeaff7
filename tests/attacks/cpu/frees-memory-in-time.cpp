// Ends as: memory_limit|crash. Frees its memory between two of the referee's checks.
#include "conv.h"

extern "C" void conv_forward(const float* x, const float* k, float* y, int B, int M, int C, int H, int W, int K) {
  const size_t size = 600ul << 20;
  void* at = mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  madvise(at, size, MADV_HUGEPAGE);
  for (size_t i = 0; i < size; i += 4096) static_cast<volatile char*>(at)[i] = 1;
  munmap(at, size);
  convolve(x, k, y, B, M, C, H, W, K);
}
