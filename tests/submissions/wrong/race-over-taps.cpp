// Threads share the taps, and add to the same outputs.
#include <cstring>

#include "loops.h"

extern "C" void conv_forward(const float* x, const float* k, float* y, int B, int M, int C, int H, int W, int K) {
  const Shape s(B, M, C, H, W, K);
  memset(y, 0, sizeof(float) * B * M * s.Ho * s.Wo);
#pragma omp parallel for collapse(2)
  for (int p = 0; p < s.K; ++p)
    for (int q = 0; q < s.K; ++q)
      for (int b = 0; b < s.B; ++b)
        for (int m = 0; m < s.M; ++m)
          for (int c = 0; c < s.C; ++c)
            for (int h = 0; h < s.Ho; ++h)
              for (int w = 0; w < s.Wo; ++w) y[s.y(b, m, h, w)] += x[s.x(b, c, h + p, w + q)] * k[s.k(m, c, p, q)];
}
