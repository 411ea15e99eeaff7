// Adds the products in an integer.
#include "loops.h"

extern "C" void conv_forward(const float* x, const float* k, float* y, int B, int M, int C, int H, int W, int K) {
  const Shape s(B, M, C, H, W, K);
  for (int b = 0; b < s.B; ++b)
    for (int m = 0; m < s.M; ++m)
      for (int h = 0; h < s.Ho; ++h)
        for (int w = 0; w < s.Wo; ++w) {
          int total = 0;
          for (int c = 0; c < s.C; ++c)
            for (int p = 0; p < s.K; ++p)
              for (int q = 0; q < s.K; ++q) total += x[s.x(b, c, h + p, w + q)] * k[s.k(m, c, p, q)];
          y[s.y(b, m, h, w)] = total;
        }
}
