// The functions of the ladder's numbered files, for the table (table.cu): run_NAME launches a kernel, takes_NAME says
// whether it supports a shape.
#pragma once

#include "conv/cuda/dims.h"

namespace fops {

Kernel::Run run_global_accumulate, run_register_accumulate, run_shared_tile, run_linear_block, run_image_grid,
    run_unrolled, run_compile_time, run_constant_weights, run_im2col_gemm, run_implicit_gemm, run_register_tile,
    run_tensor_core_tile, run_tensor_core_half, run_few_products;
Kernel::Takes takes_shared_tile, takes_linear_block, takes_image_in_shared, takes_compile_time, takes_unrolled,
    takes_register_tile, takes_tensor_core_tile, takes_few_products;

}  // namespace fops
