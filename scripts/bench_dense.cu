// The dense layer of custom_ops/net/cuda behind a C interface, for bench_dense.py.
#include "base/status.h"
#include "net/cuda/kernels/dense/dense.h"

extern "C" {

FOPS_API size_t weight_bytes(long long units, long long inputs) { return fops::dense_weight_bytes(units, inputs); }

FOPS_API int pack(long long units, long long inputs, const float* w, const float* bias, void* memory,
                  fops::DenseWeights* out, cudaStream_t stream) {
  return fops::pack_dense(units, inputs, w, bias, memory, out, stream);
}

FOPS_API size_t workspace_bytes(const fops::DenseWeights* weights, long long n) {
  return fops::dense_workspace_bytes(*weights, n);
}

FOPS_API int dense(const fops::DenseWeights* weights, long long n, const void* x_hi, const void* x_lo, float x_unscale,
                   int tanh, int products, float* y, void* workspace, cudaStream_t stream) {
  return fops::dense(*weights, n, static_cast<const __half*>(x_hi), static_cast<const __half*>(x_lo), x_unscale,
                     tanh != 0 ? fops::Activation::tanh : fops::Activation::none, products, {}, y, workspace, stream);
}

FOPS_API const char* message() { return fops::last_message(); }
}
