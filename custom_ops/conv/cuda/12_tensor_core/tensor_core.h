// Step 12's kernels: one_channel/pixels.cu and four_outputs.cu for one input channel, channels.cu for several, for a few
// of them few_filters.cu, whose shapes are a part of the latter's, and any_shape/pointwise.cu for 1x1. On Hopper
// one_channel/shifts.cu (and streams.cu) does many of one channel, warpgroup.cu most of few_filters.cu's,
// any_shape/walks.cu and bands.cu most of channels.cu's, few_channels.cu there many filters of two to four channels, and
// any_shape.cu all that is left. dispatch.cu decides.
#pragma once

#include <cuda_runtime.h>

#include "conv/cuda/halves_out.h"
#include "fashion_ops.h"

namespace fops {

// C K K from which a sum has room for what two split operands lose, at most 9 units of 2^-24 of a product where the one
// of two low halves is left out: the bound is 4 + sqrt(C K K) units (docs/precision.md). From 49 on was not enough: of
// equal terms whose halves lose most, sums of 52 and 60 were 1.05 times the bound from what they should be.
constexpr int kLeastProducts = 64;

// Any of them, or a refusal that names the step: what steps 12 and 13 call. `stream` is a cudaStream_t.
fops_status run_on_tensor_cores(bool half, const fops_conv&, const void* x, const float* k, float* y, void* stream);

bool takes_tensor_core_pixels(const fops_conv&);
bool takes_tensor_core_four_outputs(const fops_conv&);
bool takes_tensor_core_channels(const fops_conv&);
bool takes_tensor_core_few_filters(const fops_conv&);
bool takes_tensor_core_warpgroup(const fops_conv&);  // on Hopper, among the shapes of the few filters
bool takes_tensor_core_bands(const fops_conv&);      // on Hopper
bool takes_tensor_core_walks(const fops_conv&);      // on Hopper
bool takes_tensor_core_apart(const fops_conv&);      // on Hopper
bool takes_tensor_core_row_groups(const fops_conv&);  // on Hopper
bool takes_tensor_core_pointwise(const fops_conv&);
bool takes_tensor_core_few_channels(const fops_conv&);  // on Hopper
bool takes_tensor_core_any_shape(const fops_conv&);  // on Hopper
bool takes_tensor_core_shifts(const fops_conv&);     // on Hopper

// `half` leaves out the products that restore float32 grade: step 13.
fops_status run_tensor_core_pixels(const fops_conv&, bool half, const void* x, const float* k, float* y, cudaStream_t);
fops_status run_tensor_core_four_outputs(const fops_conv&, bool half, const void* x, const float* k, float* y,
                                         cudaStream_t);
fops_status run_tensor_core_channels(const fops_conv&, bool half, const void* x, const float* k, float* y,
                                     cudaStream_t);
fops_status run_tensor_core_few_filters(const fops_conv&, bool half, const void* x, const float* k, float* y,
                                        cudaStream_t);
fops_status run_tensor_core_shifts(const fops_conv&, bool half, const void* x, const float* k, float* y, cudaStream_t);
// At float32 grade.
fops_status run_tensor_core_warpgroup(const fops_conv&, const void* x, const float* k, float* y, cudaStream_t);
fops_status run_tensor_core_warpgroup(const fops_conv&, const void* x, const float* k, const HalvesOut& y,
                                      cudaStream_t);
fops_status run_tensor_core_bands(const fops_conv&, const void* x, const float* k, float* y, cudaStream_t);
fops_status run_tensor_core_row_groups(const fops_conv&, const void* x, const float* k, float* y, cudaStream_t);
fops_status run_tensor_core_row_groups(const fops_conv&, const void* x, const float* k, const HalvesOut& y,
                                       cudaStream_t);
fops_status run_tensor_core_apart(const fops_conv&, const void* x, const float* k, float* y, cudaStream_t);
fops_status run_tensor_core_walks(const fops_conv&, const void* x, const float* k, float* y, cudaStream_t);
fops_status run_tensor_core_pointwise(const fops_conv&, const void* x, const float* k, float* y, cudaStream_t);
fops_status run_tensor_core_few_channels(const fops_conv&, const void* x, const float* k, float* y, cudaStream_t);
fops_status run_tensor_core_any_shape(const fops_conv&, bool half, const void* x, const float* k, float* y,
                                      cudaStream_t);

}  // namespace fops
