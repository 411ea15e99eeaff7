// The rows of the unrolled data are in the order tap, channel, and the weights in the order channel, tap.
#include <vector>

#include "loops.h"

extern "C" void conv_forward(const float* x, const float* k, float* y, int B, int M, int C, int H, int W, int K) {
  const Shape s(B, M, C, H, W, K);
  const int rows = C * K * K, columns = s.Ho * s.Wo;
  std::vector<float> unrolled(size_t(rows) * columns);
  for (int b = 0; b < B; ++b) {
    float* next = unrolled.data();
    for (int p = 0; p < K; ++p)
      for (int q = 0; q < K; ++q)
        for (int c = 0; c < C; ++c)
          for (int h = 0; h < s.Ho; ++h)
            for (int w = 0; w < s.Wo; ++w) *next++ = x[s.x(b, c, h + p, w + q)];
    for (int m = 0; m < M; ++m)
      for (int column = 0; column < columns; ++column) {
        float total = 0;
        for (int row = 0; row < rows; ++row) total += k[size_t(m) * rows + row] * unrolled[size_t(row) * columns + column];
        y[(size_t(b) * M + m) * columns + column] = total;
      }
  }
}
