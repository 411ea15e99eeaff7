// Small batches: kernels whose blocks have all their operands resident in shared memory.
#pragma once

#include "conv/hopper/plan.h"
#include "fashion_ops.h"

namespace fops {
namespace hopper {

// A pass where each SM has a block at most; else *taken is false. run_at_once is for any_shape.cu's layers
// without taps in rows of their own, with the usual plan's chunks and steps; run_bands_at_once for those of
// image_bands.cu.
fops_status run_resident(const fops_conv& c, const Plan& usual, bool stacked, int sms, const void* x,
                        const float* k, float* y, cudaStream_t stream, bool* taken);
fops_status run_image_bands_resident(const fops_conv& c, const Chunks& chunks, int chain, int sms, const float* x,
                              const float* k, float* y, cudaStream_t stream, bool* taken);

}  // namespace hopper
}  // namespace fops
