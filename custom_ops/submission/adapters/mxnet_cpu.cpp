// Adapter for fa2017 to fa2019 on the CPU: the C++ template `forward` over mshadow tensors, in new-forward.h.
#include "mxnet/base.h"
#include "support.h"

static void fops_forward(fops_plugin_call* fops_call);  // defined after the #include of the file

FOPS_EXPORT_KERNEL(FOPS_CPU, 1, 1, 1000, fops_adapter::run_on_host<fops_forward>)

struct FopsTensors {
  mshadow::Tensor<mshadow::cpu, 4, float> y, x, w;
  explicit FopsTensors(const fops_plugin_call& call)
      : y(call.y,
          mshadow::Shape4(call.conv.B, call.conv.M, call.conv.H - call.conv.K + 1, call.conv.W - call.conv.K + 1)),
        x(const_cast<float*>(call.x), mshadow::Shape4(call.conv.B, call.conv.C, call.conv.H, call.conv.W)),
        w(const_cast<float*>(call.k), mshadow::Shape4(call.conv.M, call.conv.C, call.conv.K, call.conv.K)) {}
  void fops_apply(void (*fops_call)(mshadow::Tensor<mshadow::cpu, 4, float>&,
                                    const mshadow::Tensor<mshadow::cpu, 4, float>&,
                                    const mshadow::Tensor<mshadow::cpu, 4, float>&)) {
    fops_call(y, x, w);
  }
};

#include "fops_submission.inc"  // written for each build: it includes the kernel file

static void fops_forward(fops_plugin_call* fops_call) {
  FopsTensors fops_tensors(*fops_call);
  fops_tensors.fops_apply(::mxnet::op::forward<mshadow::cpu, float>);
}
