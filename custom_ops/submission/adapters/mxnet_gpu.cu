// Adapter for fa2017 to fa2019: `forward<gpu, float>` over mshadow tensors, in new-forward.cuh. Op Time is the time of
// forward and a device synchronise, from an idle device. y is set to zero before each call.
#include "device.cuh"
#include "mxnet/base.h"

static void fops_forward(fops_plugin_call* fops_call);  // defined after the #include of the file

namespace fops_adapter {

static int run(fops_plugin_call* call) {
  return run_on_device(call, "forward", [call] { fops_forward(call); });
}

}  // namespace fops_adapter

FOPS_EXPORT_KERNEL(FOPS_GPU, 0, 1, 1000, fops_adapter::run)

// The declaration that MXNet's new-inl.h had before it included the file.
namespace mxnet {
namespace op {
template <typename fops_xpu, typename fops_type>
void forward(mshadow::Tensor<fops_xpu, 4, fops_type>& y, const mshadow::Tensor<fops_xpu, 4, fops_type>& x,
             const mshadow::Tensor<fops_xpu, 4, fops_type>& w);
}
}  // namespace mxnet

static mshadow::Tensor<mshadow::gpu, 4, float> fops_tensor(const float* data, mshadow::Stream<mshadow::gpu>* stream,
                                                           long long a, long long b, long long c, long long d) {
  return mshadow::Tensor<mshadow::gpu, 4, float>(const_cast<float*>(data), mshadow::Shape4(a, b, c, d), stream);
}

struct FopsTensors {
  mshadow::Stream<mshadow::gpu> stream;
  mshadow::Tensor<mshadow::gpu, 4, float> y, x, w;
  explicit FopsTensors(const fops_plugin_call& call)
      : stream{static_cast<cudaStream_t>(call.stream)},
        y(fops_tensor(call.y, &stream, call.conv.B, call.conv.M, call.conv.H - call.conv.K + 1,
                      call.conv.W - call.conv.K + 1)),
        x(fops_tensor(call.x, &stream, call.conv.B, call.conv.C, call.conv.H, call.conv.W)),
        w(fops_tensor(call.k, &stream, call.conv.M, call.conv.C, call.conv.K, call.conv.K)) {}
  void fops_apply(void (*fops_call)(mshadow::Tensor<mshadow::gpu, 4, float>&,
                                    const mshadow::Tensor<mshadow::gpu, 4, float>&,
                                    const mshadow::Tensor<mshadow::gpu, 4, float>&)) {
    fops_call(y, x, w);
  }
};

#include "fops_submission.inc"  // written for each build: it includes the kernel file

static void fops_forward(fops_plugin_call* fops_call) {
  FopsTensors fops_tensors(*fops_call);
  fops_tensors.fops_apply(::mxnet::op::forward<mshadow::gpu, float>);
}
