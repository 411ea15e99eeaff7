// Template for the CPU kernel of the MXNet editions (fa2017 to fa2019). The tensors are in host memory.
#ifndef NEW_FORWARD_H_
#define NEW_FORWARD_H_

#include <mxnet/base.h>

namespace mxnet {
namespace op {

template <typename cpu, typename DType>
void forward(mshadow::Tensor<cpu, 4, DType>& y, const mshadow::Tensor<cpu, 4, DType>& x,
             const mshadow::Tensor<cpu, 4, DType>& k) {
  const int B = x.shape_[0], M = y.shape_[1], C = x.shape_[1], K = k.shape_[3];
  const int Ho = y.shape_[2], Wo = y.shape_[3];
  for (int b = 0; b < B; ++b)
    for (int m = 0; m < M; ++m)
      for (int h = 0; h < Ho; ++h)
        for (int w = 0; w < Wo; ++w) {
          y[b][m][h][w] = 0;
          for (int c = 0; c < C; ++c)
            for (int p = 0; p < K; ++p)
              for (int q = 0; q < K; ++q) y[b][m][h][w] += x[b][c][h + p][w + q] * k[m][c][p][q];
        }
}

}  // namespace op
}  // namespace mxnet

#endif
