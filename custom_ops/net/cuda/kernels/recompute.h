// Arguments of kernels/recompute.cu: the stages in their plain form, and the dense layers whose outputs may be in
// doubt.
#pragma once

#include <cuda_fp16.h>

#include "net/cuda/kernels/dense/dense.h"
#include "net/plan.h"

namespace fops {

// The maximum number of stages of a plan; a longer plan stays in float32 (route.cu). All of this is a kernel argument,
// limited to 4 KB.
constexpr int kMostRecomputed = 20;

struct PlainStage {
  Stage::Kind kind;
  Activation activation;
  int C, H, W, units, OH, OW;     // sizes of input and output; the output of a dense stage is (units, 1, 1)
  int K;                          // 1 if there is no convolution
  int size, stride;               // of the pool's windows; 1 if there is no pool
  const float *w, *bias;          // original weights and bias
};

struct DoubtfulLayer {
  const __half *x, *w;  // the high halves, (n, row) and (units, row)
  const float *unscale, *bias, *least;
  float x_unscale, share;  // share: factor for `least`, see Doubts
  int row, units;
  Doubts doubts;
};

struct Recompute {
  PlainStage stages[kMostRecomputed];
  DoubtfulLayer layers[kMostRecomputed];
  int stage_count = 0, layer_count = 0;
  unsigned blocks = 0;
  unsigned* again = nullptr;   // (n): the items to recompute; zeros before and after the kernel
  float* scratch = nullptr;    // two tensors per block, of `largest` values each
  long long largest = 0, out_size = 0;
  bool ahead = false;          // the previous step sets no bits: they can be read while it runs
};
static_assert(sizeof(Recompute) <= 3500, "a kernel's arguments");

}  // namespace fops
