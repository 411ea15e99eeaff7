// The ladder's steps, for code that means one of them. Everything else finds a kernel by conv/dispatch.h.
#pragma once

#include "conv/kernel.h"

namespace fops {

// The numbers of the files in this folder, and the order of the table. A kernel behind the last needs no name here.
enum class Ladder {
  global_accumulate = 1,
  register_accumulate,
  shared_tile,
  linear_block,
  image_grid,
  unrolled,
  compile_time,
  constant_weights,
  im2col_gemm,
  implicit_gemm,
  register_tile,
  tensor_core,
  half,
  few_products
};

const Kernel& ladder(Ladder step);

}  // namespace fops
