// Template for the GPU kernel of the MXNet editions (fa2017 to fa2019). The tensors are in device memory.
#ifndef NEW_FORWARD_CUH_
#define NEW_FORWARD_CUH_

#include <mxnet/base.h>

namespace mxnet {
namespace op {

#define y4d(i3, i2, i1, i0) y[((size_t(i3) * M + (i2)) * H_out + (i1)) * W_out + (i0)]
#define x4d(i3, i2, i1, i0) x[((size_t(i3) * C + (i2)) * H + (i1)) * W + (i0)]
#define k4d(i3, i2, i1, i0) k[(((i3) * C + (i2)) * K + (i1)) * K + (i0)]

// Each block computes the outputs of one image and filter; its threads share them.
__global__ void forward_kernel(float* y, const float* x, const float* k, const int B, const int M, const int C,
                               const int H, const int W, const int K) {
  const int H_out = H - K + 1, W_out = W - K + 1;
  const int b = blockIdx.x, m = blockIdx.y;
  for (int i = threadIdx.x; i < H_out * W_out; i += blockDim.x) {
    const int h = i / W_out, w = i % W_out;
    float sum = 0;
    for (int c = 0; c < C; ++c)
      for (int p = 0; p < K; ++p)
        for (int q = 0; q < K; ++q) sum += x4d(b, c, h + p, w + q) * k4d(m, c, p, q);
    y4d(b, m, h, w) = sum;
  }
}

#undef y4d
#undef x4d
#undef k4d

template <>
void forward<gpu, float>(mshadow::Tensor<gpu, 4, float>& y, const mshadow::Tensor<gpu, 4, float>& x,
                         const mshadow::Tensor<gpu, 4, float>& w) {
  const int B = x.shape_[0], M = y.shape_[1], C = x.shape_[1], H = x.shape_[2], W = x.shape_[3], K = w.shape_[3];
  cudaStream_t s = y.stream_->stream_;
  forward_kernel<<<dim3(B, M), 256, 0, s>>>(y.dptr_, x.dptr_, w.dptr_, B, M, C, H, W, K);
  MSHADOW_CUDA_CALL(cudaDeviceSynchronize());
}

// For types other than float, for which it is not called.
template <typename gpu, typename DType>
void forward(mshadow::Tensor<gpu, 4, DType>& y, const mshadow::Tensor<gpu, 4, DType>& x,
             const mshadow::Tensor<gpu, 4, DType>& w) {
  CHECK_EQ(0, 1) << "only float";
}

}  // namespace op
}  // namespace mxnet

#endif
