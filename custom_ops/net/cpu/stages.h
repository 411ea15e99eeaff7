// The CPU's kernels for stages, compiled once for each instruction set from the *_simd.cpp files of this folder.
#pragma once

#include "base/isa.h"
#include "net/plan.h"

namespace fops {

struct CpuStages {
  // Runs a convolution stage on one item. The call computes the filters or rows of one of `parts` parts, which may run
  // in parallel; there are at most convolution_parts parts. `scratch` holds as many floats as convolution_scratch
  // returns.
  int64_t (*convolution_scratch)(const Stage&);
  int64_t (*convolution_parts)(const Stage&);
  void (*convolution)(const Stage&, const void* x, fops_dtype type, const float* weight, int64_t part, int64_t parts,
                      float* scratch, float* y);

  // Runs a map stage on one item, with arguments like those of the convolution stage.
  int64_t (*map_scratch)(const Stage&);
  void (*map)(const Stage&, const float* x, float* scratch, float* y);

  // Runs a dense stage. Its units are divided into panels, which may run in parallel. `packed` (dense_floats long) is
  // the result of pack_dense; x is (rows, inputs), y is (rows, units), and `scratch` has (rows, dense_padded) floats
  // that all panels share.
  int64_t (*dense_panels)(int64_t units);
  int64_t (*dense_padded)(int64_t units);
  void (*pack_dense)(int64_t units, int64_t inputs, const float* weight, float* packed);
  void (*dense)(const Stage&, const float* packed, const float* bias, int64_t rows, const float* x, int64_t panel,
                float* scratch, float* y);
};

// The functions for this machine's instruction set.
const CpuStages& cpu_stages();

// y[i] = exp(x[i]) / sum of all exp(x[j])
void softmax(int64_t count, const float* x, float* y);

#define FOPS_DECLARE(set) \
  namespace set { extern const CpuStages stages; }
FOPS_EACH_ISA(FOPS_DECLARE)
#undef FOPS_DECLARE

}  // namespace fops
