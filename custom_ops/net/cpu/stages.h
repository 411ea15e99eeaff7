// The CPU's functions that run a stage. The *_simd.cpp files of this folder define them, once for each instruction set.
#pragma once

#include "base/isa.h"
#include "net/plan.h"

namespace fops {

struct CpuStages {
  // `convolution` runs a convolution stage on one item. The stage is divided by filters or rows into `parts` parts, at
  // most as many as convolution_parts returns; a call computes part number `part`, and the parts may run in parallel.
  // `scratch` has as many floats as convolution_scratch returns.
  int64_t (*convolution_scratch)(const Stage&);
  int64_t (*convolution_parts)(const Stage&);
  void (*convolution)(const Stage&, const void* x, fops_dtype type, const float* weight, int64_t part, int64_t parts,
                      float* scratch, float* y);

  // `map` runs a map stage on one item. `scratch` has as many floats as map_scratch returns.
  int64_t (*map_scratch)(const Stage&);
  void (*map)(const Stage&, const float* x, float* scratch, float* y);

  // `dense` runs a dense stage on `rows` items. Its units are divided into dense_panels panels; a call computes panel number
  // `panel`, and the panels may run in parallel. x is (rows, inputs), and y is (rows, units). `packed` is the result of
  // pack_dense and has dense_padded * inputs floats. `scratch` has rows * dense_padded floats, which all panels share.
  int64_t (*dense_panels)(int64_t units);
  int64_t (*dense_padded)(int64_t units);
  void (*pack_dense)(int64_t units, int64_t inputs, const float* weight, float* packed);
  void (*dense)(const Stage&, const float* packed, const float* bias, int64_t rows, const float* x, int64_t panel,
                float* scratch, float* y);
};

const CpuStages& cpu_stages();

void softmax(int64_t count, const float* x, float* y);

#define FOPS_DECLARE(set)        \
  namespace set {                \
  extern const CpuStages stages; \
  }
FOPS_EACH_ISA(FOPS_DECLARE)
#undef FOPS_DECLARE

}  // namespace fops
