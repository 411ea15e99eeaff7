/* Plain C, with OpenMP: compiled as C. */
#include <stddef.h>

void conv_forward(const float *restrict x, const float *restrict k, float *restrict y, int B, int M, int C, int H, int W,
                  int K) {
  const int Ho = H - K + 1, Wo = W - K + 1;
#pragma omp parallel for
  for (int b = 0; b < B; ++b)
    for (int m = 0; m < M; ++m)
      for (int h = 0; h < Ho; ++h)
        for (int w = 0; w < Wo; ++w) {
          float new = 0;
          for (int c = 0; c < C; ++c)
            for (int p = 0; p < K; ++p)
              for (int q = 0; q < K; ++q)
                new += x[(((size_t)b * C + c) * H + h + p) * W + w + q] * k[(((size_t)m * C + c) * K + p) * K + q];
          y[(((size_t)b * M + m) * Ho + h) * Wo + w] = new;
        }
}
