// The functions of the ladder's numbered files, for the table (table.cu): run_NAME launches a kernel, takes_NAME says
// whether it supports a shape.
#pragma once

#include "conv/cuda/dims.h"

namespace fops {

#define FOPS_RUN(name) fops_status name(const fops_conv&, const void* x, const float* k, float* y, void* stream)

FOPS_RUN(run_global_accumulate);
FOPS_RUN(run_register_accumulate);
FOPS_RUN(run_shared_tile);
FOPS_RUN(run_linear_block);
FOPS_RUN(run_image_grid);
FOPS_RUN(run_unrolled);
FOPS_RUN(run_compile_time);
FOPS_RUN(run_constant_weights);
FOPS_RUN(run_im2col_gemm);
FOPS_RUN(run_implicit_gemm);
FOPS_RUN(run_register_tile);
FOPS_RUN(run_tensor_core_tile);
FOPS_RUN(run_tensor_core_half);
FOPS_RUN(run_few_products);

#undef FOPS_RUN

bool takes_shared_tile(const fops_conv&);
bool takes_linear_block(const fops_conv&);
bool takes_image_in_shared(const fops_conv&);
bool takes_compile_time(const fops_conv&);
bool takes_unrolled(const fops_conv&);
bool takes_register_tile(const fops_conv&);
bool takes_tensor_core_tile(const fops_conv&);
bool takes_few_products(const fops_conv&);

}  // namespace fops
