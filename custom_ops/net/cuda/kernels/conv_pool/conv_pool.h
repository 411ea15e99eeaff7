// Convolution, max pool and activation in one kernel, with float32 accuracy, on the tensor cores.
//
//   first_layer.cu  kernel for one input channel and a 2x2 pool
//   later_layer.cu  kernel for two to four input channels and a 4x4 pool
//   pack.cu         packs the weights of both kernels on the host
#pragma once

#include "net/cuda/kernels/stages.h"
#include "net/plan.h"

namespace fops {

// Whether the kernel of first_layer.cu (on sm_80 and newer) or of later_layer.cu (on this thread's current device),
// respectively, supports a stage.
bool takes_first_layer(const Stage& stage);
bool takes_later_layer(const Stage& stage);

// A stage's weights, split into halves, in the order in which the kernel's lanes read them. They are followed by a
// float per filter of every tile, a power of two, which undoes the filter's scale.
using ConvPoolWeights = PackedWeights;
// Packs the weights. Returns false if they cannot be split well: infinities, NaN, too large values, or values of one
// filter too far apart.
bool pack_conv_pool(const Stage& stage, const float* k, ConvPoolWeights* out);

// x is float32 or, only for the first layer, uint8; y is float32 or halves. `k` is the stage's original weight, in
// device memory; it is used for inputs that cannot be split well.
fops_status run_first_layer(const Stage& stage, const ConvPoolWeights& weights, const float* k, int64_t n,
                            const Tensor& x, const Tensor& y, cudaStream_t stream);
fops_status run_later_layer(const Stage& stage, const ConvPoolWeights& weights, const float* k, int64_t n,
                            const Tensor& x, const Tensor& y, cudaStream_t stream);

}  // namespace fops
