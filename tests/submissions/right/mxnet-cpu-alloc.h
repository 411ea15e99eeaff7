// mshadow's tensors for intermediate values: the window of an output as a row.
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
    using namespace mshadow;
    const int C = x.shape_[1], K = k.shape_[3];
    Tensor<cpu, 2, DType> filters(k.dptr_, Shape2(k.shape_[0], C * K * K));
    Tensor<cpu, 1, DType> window(Shape1(C * K * K));
    Tensor<cpu, 3, DType> unused;
    AllocSpace(&window);
    CHECK_EQ(filters.size(1), window.size(0));
    CHECK(unused.dptr_ == nullptr);
    for (index_t b = 0; b < y.size(0); b++)
        for (index_t h = 0; h < y.size(2); h++)
            for (index_t w = 0; w < y.size(3); w++) {
                for (int t = 0; t < C * K * K; t++) window[t] = x[b][t / (K * K)][h + t / K % K][w + t % K];
                for (index_t m = 0; m < y.size(1); m++) {
                    DType sum = 0;
                    for (int t = 0; t < C * K * K; t++) sum += filters[m][t] * window[t];
                    y[b][m][h][w] = sum;
                }
            }
    FreeSpace(&window);
}
}
}
#endif
