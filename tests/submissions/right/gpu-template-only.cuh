// The first weeks of fa2017: only the template, no specialisation; mshadow's tensors for intermediate values.
#ifndef MXNET_OPERATOR_NEW_FORWARD_CUH_
#define MXNET_OPERATOR_NEW_FORWARD_CUH_
#define ceil(number, by) (((number) - 1) / (by) + 1)
#include <mxnet/base.h>
namespace mxnet
{
namespace op
{

template<typename gpu, typename DType>
__global__ void unroll(const DType *x, DType *u, int C, int H, int W, int K) {
    const int W_out = W - K + 1, n = (H - K + 1) * W_out;
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= C * K * K * n) return;
    const int tap = i / n, out = i % n;
    u[i] = x[(tap / (K * K) * H + out / W_out + tap / K % K) * W + out % W_out + tap % K];
}

template<typename gpu, typename DType>
__global__ void multiply(const DType *a, const DType *b, DType *c, int rows, int inner, int columns) {
    const int column = blockIdx.x * blockDim.x + threadIdx.x, row = blockIdx.y;
    if (column >= columns) return;
    DType sum = 0;
    for (int i = 0; i < inner; i++) sum += a[row * inner + i] * b[i * columns + column];
    c[row * columns + column] = sum;
}

// This function is called by new-inl.h
template<typename gpu, typename DType>
void forward(mshadow::Tensor<gpu, 4, DType> &y, const mshadow::Tensor<gpu, 4, DType> &x, const mshadow::Tensor<gpu, 4, DType> &w) {
    using namespace mshadow;
    cudaStream_t s = y.stream_->stream_;
    const int B = x.shape_[0], M = y.shape_[1], C = x.shape_[1], H = x.shape_[2], W = x.shape_[3], K = w.shape_[3];
    const int n = y.shape_[2] * y.shape_[3];
    Tensor<gpu, 2, DType> weights(w.dptr_, Shape2(M, C * K * K));
    Tensor<gpu, 2, DType> unrolled(Shape2(C * K * K, n));
    AllocSpace(&unrolled);
    for (int b = 0; b < B; b++) {
        unroll<gpu, DType><<<ceil(C * K * K * n, 256), 256, 0, s>>>(x.dptr_ + b * C * H * W, unrolled.dptr_, C, H, W, K);
        multiply<gpu, DType><<<dim3(ceil(n, 256), M), 256, 0, s>>>(weights.dptr_, unrolled.dptr_, y.dptr_ + b * M * n, M, C * K * K, n);
    }
    MSHADOW_CUDA_CALL(cudaDeviceSynchronize());
    FreeSpace(&unrolled);
}

}
}
#endif
