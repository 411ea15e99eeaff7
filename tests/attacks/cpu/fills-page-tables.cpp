// Ends as: harmless. Reads one byte per page table: the pages are all the shared zero page, but each table takes memory.
#include "conv.h"

extern "C" void conv_forward(const float* x, const float* k, float* y, int B, int M, int C, int H, int W, int K) {
  const size_t table = 2 << 20, all = size_t(160) << 30;  // 4 KiB for each 2 MiB: 320 MiB, where 256 are allowed
  const char* at = static_cast<char*>(mmap(nullptr, all, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0));
  tell("addresses without end", at != MAP_FAILED);
  if (at != MAP_FAILED) {
    volatile char sum = 0;
    for (size_t i = 0; i < all; i += table) sum += at[i];
  }
  convolve(x, k, y, B, M, C, H, W, K);
}
