// Any shape on Hopper, small batches: kernels that have all they need in shared memory at once.
#pragma once

#include "conv/cuda/12_tensor_core/any_shape/plan.h"
#include "fashion_ops.h"

namespace fops {
namespace any_shape {

// A pass where each multiprocessor has a block at most; else *taken is false. run_at_once is for any_shape.cu's layers
// without taps in rows of their own, with the usual plan's chunks and steps; run_bands_at_once for those of bands.cu.
fops_status run_at_once(const fops_conv& c, const Plan& usual, bool stacked, int multiprocessors, const void* x,
                        const float* k, float* y, cudaStream_t stream, bool* taken);
fops_status run_bands_at_once(const fops_conv& c, const Chunks& chunks, int chain, int multiprocessors, const float* x,
                              const float* k, float* y, cudaStream_t stream, bool* taken);

}  // namespace any_shape
}  // namespace fops
