// Step 0: the definition of the convolution as code.
//
// Seven nested loops, one thread, one multiply-add at a time. A reader can compare any other kernel with it, and the
// course's students started from such loops. It is slow: each output reads C*K*K inputs and weights again, and each
// addition waits for the previous one, because the compiler may not reorder a float32 sum. The sums of a filter's rows are
// added in double: one chain of float32 additions can exceed docs/precision.md's bound from 49 equal terms on.
#include "conv/cpu/kernels.h"

namespace fops {
namespace {

template <typename T>
void convolve(const fops_conv& c, const T* x, const float* k, float* y) {
  const int64_t H_out = out_h(c), W_out = out_w(c);
  auto x4d = [&](int64_t b, int64_t ch, int64_t h, int64_t w) {
    return static_cast<float>(x[((b * c.C + ch) * c.H + h) * c.W + w]);
  };
  auto k4d = [&](int64_t m, int64_t ch, int64_t p, int64_t q) { return k[((m * c.C + ch) * c.K + p) * c.K + q]; };

  for (int64_t b = 0; b < c.B; ++b)
    for (int64_t m = 0; m < c.M; ++m)
      for (int64_t h = 0; h < H_out; ++h)
        for (int64_t w = 0; w < W_out; ++w) {
          double sum = 0;
          for (int64_t ch = 0; ch < c.C; ++ch)
            for (int64_t p = 0; p < c.K; ++p) {
              float row = 0;
              for (int64_t q = 0; q < c.K; ++q) row += x4d(b, ch, h + p, w + q) * k4d(m, ch, p, q);
              sum += row;
            }
          y[((b * c.M + m) * H_out + h) * W_out + w] = static_cast<float>(sum);
        }
}

}  // namespace

fops_status conv_naive(const fops_conv& c, const void* x, const float* k, float* y, void*) {
  with_input(c, x, [&](auto* typed) { convolve(c, typed, k, y); });
  return FOPS_OK;
}

}  // namespace fops
