// The kernels of the CUDA executor, except for large dense layers (dense.h) and conv_pool/. Every function with a
// parameter `stream` queues work on it and returns the status of the launches; none waits or allocates.
#pragma once

#include <cuda_fp16.h>

#include <vector>

#include "gpu/check.h"
#include "net/plan.h"

namespace fops {

// A tensor of n items in device memory, in one of the forms in which stages pass tensors to one another.
struct Tensor {
  enum class Form {
    float32,  // (n, size)
    uint8,    // (n, size): only for the network's input data
    halves    // two arrays hi and lo, each (n, dense_stride(size)) with zeros after `size`; value = (hi + lo) / scale
  };
  Form form = Form::float32;
  void* data = nullptr;  // the values; for halves, the array hi
  __half* lo = nullptr;  // only for halves
  float scale = 1.0f;    // only for halves: a power of two
};

// Applies a max pool, if there is one, and an activation, which may be `none`. The input is float32 or uint8, the
// output float32 or halves. `in` and `out` are the sizes of one item.
fops_status run_map(const Item& in, const Item& out, const Pool& pool, Activation activation, int64_t n,
                    const Tensor& x, const Tensor& y, cudaStream_t stream);

// Adds the bias, unless it is null, to y (n, units), float32, and then applies the activation, in place.
fops_status run_bias_activation(int64_t n, int64_t units, const float* bias, Activation activation, float* y,
                                cudaStream_t stream);

fops_status run_softmax(int64_t n, int64_t size, const Tensor& x, float* y, cudaStream_t stream);

// Finds, for each of n items, the index of the largest of `size` values (kernels/largest.cu).
fops_status run_largest(int64_t n, int64_t size, const float* x, int32_t* y, cudaStream_t stream);

// Runs a dense layer of few units in float32, followed by an activation or softmax. Used for all layers of up to
// kFewUnits units; and for layers of up to kMaxFewUnits units and kMaxFewWeights weights, which fit into L1, that
// cannot run on the matrix units.
constexpr int64_t kFewUnits = 16, kMaxFewUnits = 32, kMaxFewWeights = 48 << 10;
fops_status run_few_units(int64_t n, int64_t inputs, int64_t units, const Tensor& x, const float* w, const float* bias,
                          Activation activation, bool softmax, float* y, cudaStream_t stream);

// Convolution, tanh and pool in one kernel, for one channel and K = 5 (kernels/conv_pixels/).
constexpr int kTanhScale = 1 << 14;  // scale of the halves that the kernel writes: puts +-1 far inside half's range
struct PackedWeights {
  std::vector<uint32_t> packed;      // a copy of these words goes to the device
  const uint32_t* device = nullptr;  // the copy on the device, aligned to 16 bytes
};
struct PixelWeights : PackedWeights {
  float unscale = 1.0f;  // a power of two: before the split, the weights were divided by it
};
bool takes_conv_pixels(const Stage& stage);
// Packs the weights. Returns false for weights that the kernel does not support: infinite or NaN, the largest too large
// or too small for half's range, or one too far below the largest.
bool pack_conv_pixels(const Stage& stage, const float* k, PixelWeights* out);
// `k` is the stage's original weight, in device memory. It is used for images whose values cannot be split.
fops_status run_conv_pixels(const Stage& stage, const PixelWeights& weights, const float* k, int64_t n, const Tensor& x,
                            const Tensor& y, cudaStream_t stream);

struct Recompute;
fops_status run_recompute(const Recompute& recompute, int64_t n, const Tensor& data, float* out, cudaStream_t stream);

fops_status run_stamp(uint64_t* to, cudaStream_t stream);

}  // namespace fops
