// Template for the CPU kernel of the mini-dnn editions (fa2020 and later). y, x and k are in host memory.
#include "cpu-new-forward.h"

#include <cstddef>

void conv_forward_cpu(float* y, const float* x, const float* k, const int B, const int M, const int C, const int H,
                      const int W, const int K) {
  const int Ho = H - K + 1, Wo = W - K + 1;
  for (size_t b = 0; b < (size_t)B; ++b)
    for (size_t m = 0; m < (size_t)M; ++m)
      for (int h = 0; h < Ho; ++h)
        for (int w = 0; w < Wo; ++w) {
          float sum = 0;
          for (int c = 0; c < C; ++c)
            for (int p = 0; p < K; ++p)
              for (int q = 0; q < K; ++q)
                sum += x[((b * C + c) * H + h + p) * W + w + q] * k[((m * C + c) * K + p) * K + q];
          y[((b * M + m) * Ho + h) * Wo + w] = sum;
        }
}
