// The correct sum, for files that are wrong elsewhere.
#pragma once
#include <cstddef>

struct Shape {
  int B, M, C, H, W, K, Ho, Wo;
  Shape(int B, int M, int C, int H, int W, int K) : B(B), M(M), C(C), H(H), W(W), K(K), Ho(H - K + 1), Wo(W - K + 1) {}
  size_t y(int b, int m, int h, int w) const { return ((size_t(b) * M + m) * Ho + h) * Wo + w; }
  size_t x(int b, int c, int h, int w) const { return ((size_t(b) * C + c) * H + h) * W + w; }
  size_t k(int m, int c, int p, int q) const { return ((size_t(m) * C + c) * K + p) * K + q; }
};

inline float sum(const Shape& s, const float* x, const float* k, int b, int m, int h, int w) {
  float total = 0;
  for (int c = 0; c < s.C; ++c)
    for (int p = 0; p < s.K; ++p)
      for (int q = 0; q < s.K; ++q) total += x[s.x(b, c, h + p, w + q)] * k[s.k(m, c, p, q)];
  return total;
}
