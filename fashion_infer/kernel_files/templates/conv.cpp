// Template for a C or C++ kernel on the CPU: y[b,m,h,w] = sum over c,p,q of x[b,c,h+p,w+q] * k[m,c,p,q].
// x has shape (B,C,H,W), k (M,C,K,K) and y (B,M,H-K+1,W-K+1); all are float32 in host memory.
#include <cstddef>

extern "C" void conv_forward(const float* x, const float* k, float* y, int B, int M, int C, int H, int W, int K) {
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
