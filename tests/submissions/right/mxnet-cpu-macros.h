// The MXNet years on the CPU: sizes as macros, raw pointers, checks.
#include <mxnet/base.h>
#define H_out (H - K + 1)
#define W_out (W - K + 1)
#define call fops

namespace mxnet
{
namespace op
{
template <typename cpu, typename DType>
void forward(mshadow::Tensor<cpu, 4, DType> &y, const mshadow::Tensor<cpu, 4, DType> &x, const mshadow::Tensor<cpu, 4, DType> &w)
{
    CHECK_EQ(x.shape_[1], w.shape_[1]) << "channels differ";
    const int B = x.size(0), M = y.size(1), C = x.shape_[1], H = x.shape_[2], W = x.shape_[3], K = w.shape_[3];
    LOG(INFO) << "B=" << B << " of " << y.shape_.Size();
    for (int i = 0; i < B * M * H_out * W_out; i++)
        for (int c = 0; c < C; c++)
            for (int p = 0; p < K * K; p++)
                y.dptr_[i] += x.dptr_[((i / (M * H_out * W_out) * C + c) * H + i / W_out % H_out + p / K) * W + i % W_out + p % K] *
                              w.dptr_[(i / (H_out * W_out) % M * C + c) * K * K + p];
}
}
}
