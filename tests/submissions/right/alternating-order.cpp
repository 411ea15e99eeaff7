// Adds in another order in each second call, as a file does that tries two variants before it chooses one.
#include <cstddef>

extern "C" void conv_forward(const float* x, const float* k, float* y, int B, int M, int C, int H, int W, int K) {
  static int calls = 0;
  const bool reverse = ++calls % 2 == 0;
  const int Ho = H - K + 1, Wo = W - K + 1, terms = C * K * K;
  for (int b = 0; b < B; ++b)
    for (int m = 0; m < M; ++m)
      for (int h = 0; h < Ho; ++h)
        for (int w = 0; w < Wo; ++w) {
          float sum = 0;
          for (int i = 0; i < terms; ++i) {
            const int term = reverse ? terms - 1 - i : i;
            const int c = term / (K * K), p = term / K % K, q = term % K;
            sum += x[((size_t)(b * C + c) * H + h + p) * W + w + q] * k[m * terms + term];
          }
          y[((size_t)(b * M + m) * Ho + h) * Wo + w] = sum;
        }
}
