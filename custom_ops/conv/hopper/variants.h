// The functions of the tensor-core kernels' variants, each of which supports some shapes. table.cu lists the variants;
// choose.cpp picks one.
#pragma once

#include <cuda_runtime.h>

#include "conv/cuda/halves_out.h"
#include "conv/hopper/choose.h"
#include "fashion_ops.h"

namespace fops {
namespace hopper {

using Run = fops_status(const fops_conv&, const void* x, const float* k, float* y, cudaStream_t);
// The same; `half`: whether to omit the products with low parts, as step 13 of the ladder does.
using RunHalf = fops_status(const fops_conv&, bool half, const void* x, const float* k, float* y, cudaStream_t);
// Writes the outputs in halves, for a dense layer.
using RunToHalves = fops_status(const fops_conv&, const void* x, const float* k, const HalvesOut& y, cudaStream_t);

struct VariantRow {
  Variant variant;
  const char* name;  // the part after "tensor-core/"
  const char* summary;
  const char* shapes;  // the shapes that the variant supports, in words
  Kernel::Takes* takes;
  RunHalf* run;
  RunToHalves* run_to_halves;  // null if the variant cannot
  HalvesOrder order;           // order of the outputs of run_to_halves
};

}  // namespace hopper

// The functions of the files in variants/: takes_NAME says whether the variant supports a shape (on this thread's
// device, if it needs wgmma), run_NAME runs it.
Kernel::Takes takes_shifted_filters, takes_quad_columns, takes_pixel_columns, takes_pointwise, takes_output_row_pairs,
    takes_column_major_tiles, takes_register_weights, takes_warpgroup_images, takes_image_bands, takes_any_shape,
    takes_channel_quads;
hopper::RunHalf run_shifted_filters, run_quad_columns, run_pixel_columns, run_any_shape, run_channel_quads;
hopper::Run run_pointwise, run_output_row_pairs, run_column_major_tiles, run_register_weights, run_warpgroup_images,
    run_image_bands;
hopper::RunToHalves run_output_row_pairs, run_warpgroup_images;

}  // namespace fops
