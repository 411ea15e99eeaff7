// Kernels for small batches, whose blocks have all their operands resident in shared memory.
#pragma once

#include "conv/hopper/plan.h"
#include "fashion_ops.h"

namespace fops {
namespace hopper {

// Run if each SM gets at most one block; else set *taken to false. run_resident is for any_shape.cu's layers
// without taps in separate rows, with the usual plan's chunks and steps; run_image_bands_resident for those of
// image_bands.cu.
fops_status run_resident(const fops_conv& c, const Plan& usual, bool stacked, int sms, const void* x,
                        const float* k, float* y, cudaStream_t stream, bool* taken);
fops_status run_image_bands_resident(const fops_conv& c, const Chunks& chunks, int chain, int sms, const float* x,
                              const float* k, float* y, cudaStream_t stream, bool* taken);

}  // namespace hopper
}  // namespace fops
