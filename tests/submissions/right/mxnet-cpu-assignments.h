// mshadow's assignments to whole tensors: a number sets, adds to or scales every element of a row, a plane or all of y.
#ifndef MXNET_OPERATOR_NEW_FORWARD_H_
#define MXNET_OPERATOR_NEW_FORWARD_H_
#include <mxnet/base.h>
namespace mxnet
{
namespace op
{
template <typename cpu, typename DType>
void forward(mshadow::Tensor<cpu, 4, DType> &y, const mshadow::Tensor<cpu, 4, DType> &x, const mshadow::Tensor<cpu, 4, DType> &k)
{
    const int B = x.shape_[0], M = y.shape_[1], C = x.shape_[1], K = k.shape_[3], Ho = y.shape_[2], Wo = y.shape_[3];
    y = 3;
    y.Slice(0, B) -= 2;
    std::cout << "y is " << y.shape_ << std::endl;
    CHECK(y.FlatTo2D().size(0) * Wo == y.FlatTo1D().size(0) && y[0].shape_ == mshadow::Shape3(M, Ho, Wo));
    for (int b = 0; b < B; ++b) {
        y[b] *= 8;
        for (int m = 0; m < M; ++m) {
            y[b][m] /= 4;
            for (int h = 0; h < Ho; ++h) {
                y[b][m][h] += 1;
                for (int w = 0; w < Wo; ++w) CHECK_EQ(y[b][m][h][w], 3);
                y[b][m][h] = 0;
                for (int w = 0; w < Wo; ++w)
                    for (int c = 0; c < C; ++c)
                        for (int p = 0; p < K; ++p)
                            for (int q = 0; q < K; ++q) y[b][m][h][w] += x[b][c][h + p][w + q] * k[m][c][p][q];
            }
        }
    }
}
}
}
#endif
