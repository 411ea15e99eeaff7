// The MXNet years on the GPU: a kernel that takes mshadow's tensors, and numbers assigned to whole tensors.
#ifndef MXNET_OPERATOR_NEW_FORWARD_CUH_
#define MXNET_OPERATOR_NEW_FORWARD_CUH_
#include <mxnet/base.h>
namespace mxnet
{
namespace op
{
__global__ void forward_kernel(mshadow::Tensor<gpu, 4, float> y, mshadow::Tensor<gpu, 4, float> x, mshadow::Tensor<gpu, 4, float> k)
{
    const int i = blockIdx.x * blockDim.x + threadIdx.x, Wo = y.size(3), h = i / Wo, w = i % Wo;
    if (h >= y.size(2)) return;
    for (int c = 0; c < x.size(1); c++)
        for (int p = 0; p < k.size(2); p++)
            for (int q = 0; q < k.size(3); q++)
                y[blockIdx.z][blockIdx.y][h][w] += x[blockIdx.z][c][h + p][w + q] * k[blockIdx.y][c][p][q];
}

template <>
void forward<gpu, float>(mshadow::Tensor<gpu, 4, float> &y, const mshadow::Tensor<gpu, 4, float> &x, const mshadow::Tensor<gpu, 4, float> &w)
{
    y = 1.0f;
    y[0] -= 1;
    y.Slice(1, y.size(0)) *= 0;
    forward_kernel<<<dim3((y.size(2) * y.size(3) + 255) / 256, y.size(1), y.size(0)), 256, 0, y.stream_->stream_>>>(y, x, w);
    y.stream_->Wait();
}
}
}
#endif
