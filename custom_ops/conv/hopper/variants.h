// The functions of the tensor-core kernels' variants, each of which supports some shapes. table.cu lists the variants;
// choose.cpp picks one.
#pragma once

#include <cuda_runtime.h>

#include "conv/cuda/halves_out.h"
#include "conv/hopper/choose.h"
#include "fashion_ops.h"

namespace fops {
namespace hopper {

// A row of the table of variants.
struct VariantRow {
  Variant variant;
  const char* name;  // the part after "tensor-core/"
  const char* summary;
  const char* shapes;  // the shapes that the variant supports, in words
  bool (*takes)(const fops_conv&);
  // Writes float32 outputs. `half`: whether to omit the products with low parts, as step 13 of the ladder does.
  fops_status (*run)(const fops_conv&, bool half, const void* x, const float* k, float* y, cudaStream_t);
  // Writes the outputs in halves, for a dense layer; null if the variant cannot.
  fops_status (*run_to_halves)(const fops_conv&, const void* x, const float* k, const HalvesOut& y, cudaStream_t);
  HalvesOrder order;  // order of the outputs of run_to_halves
};

}  // namespace hopper

// The functions of the files in variants/: takes_NAME says whether the variant supports a shape (on this thread's
// device, if it needs wgmma), run_NAME runs it.
#define FOPS_TAKES(name) bool takes_##name(const fops_conv&)
#define FOPS_RUN(name) fops_status run_##name(const fops_conv&, const void* x, const float* k, float* y, cudaStream_t)
#define FOPS_RUN_HALF(name) \
  fops_status run_##name(const fops_conv&, bool half, const void* x, const float* k, float* y, cudaStream_t)
#define FOPS_RUN_TO_HALVES(name) \
  fops_status run_##name(const fops_conv&, const void* x, const float* k, const HalvesOut& y, cudaStream_t)

FOPS_TAKES(shifted_filters);
FOPS_TAKES(quad_columns);
FOPS_TAKES(pixel_columns);
FOPS_TAKES(pointwise);
FOPS_TAKES(output_row_pairs);
FOPS_TAKES(column_major_tiles);
FOPS_TAKES(register_weights);
FOPS_TAKES(warpgroup_images);
FOPS_TAKES(image_bands);
FOPS_TAKES(any_shape);
FOPS_TAKES(channel_quads);

FOPS_RUN_HALF(shifted_filters);
FOPS_RUN_HALF(quad_columns);
FOPS_RUN_HALF(pixel_columns);
FOPS_RUN_HALF(any_shape);
FOPS_RUN_HALF(channel_quads);
FOPS_RUN(pointwise);
FOPS_RUN(output_row_pairs);
FOPS_RUN(column_major_tiles);
FOPS_RUN(register_weights);
FOPS_RUN(warpgroup_images);
FOPS_RUN(image_bands);
FOPS_RUN_TO_HALVES(output_row_pairs);
FOPS_RUN_TO_HALVES(warpgroup_images);

#undef FOPS_TAKES
#undef FOPS_RUN
#undef FOPS_RUN_HALF
#undef FOPS_RUN_TO_HALVES

}  // namespace fops
