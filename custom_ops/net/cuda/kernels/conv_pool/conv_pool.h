// Convolution, max pool and activation in one kernel, at float32 grade, on the tensor cores.
//
//   first_layer.cu  one input channel, 2x2 pool
//   later_layer.cu  two to four input channels, 4x4 pool
//   pack.cu         their weights, on the host
#pragma once

#include <cstdint>
#include <vector>

#include "net/cuda/kernels/stages.h"
#include "net/plan.h"

namespace fops {

// Whether a kernel supports a stage: the first layer's kernel on sm_80 and newer, the later layer's kernel on this
// thread's device.
bool takes_first_layer(const Stage& stage);
bool takes_later_layer(const Stage& stage);

// A stage's weights, split into halves in the order in which the kernel's lanes read them. After them, for every
// filter, rounded up to whole tiles, comes the power of two that undoes its scale.
struct ConvPoolWeights {
  std::vector<uint32_t> packed;      // a copy of these words goes to the device
  const uint32_t* device = nullptr;  // the copy on the device, aligned to 16 bytes
};
// False for weights without a good split: infinities, NaN, or values of one filter too far apart.
bool pack_conv_pool(const Stage& stage, const float* k, ConvPoolWeights* out);

// x: uint8 (first layer) or float32; y: float32 or halves. `k` is the stage's original weight, in device memory, for
// values without a good split.
fops_status run_first_layer(const Stage& stage, const ConvPoolWeights& weights, const float* k, int64_t n,
                            const Tensor& x, const Tensor& y, cudaStream_t stream);
fops_status run_later_layer(const Stage& stage, const ConvPoolWeights& weights, const float* k, int64_t n,
                            const Tensor& x, const Tensor& y, cudaStream_t stream);

}  // namespace fops
