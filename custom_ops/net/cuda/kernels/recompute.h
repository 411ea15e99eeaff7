// Arguments of kernels/recompute.cu: all stages with their original weights, and the dense layers whose outputs may be
// in doubt (see Doubts).
#pragma once

#include <cuda_fp16.h>

#include "net/cuda/kernels/dense/dense.h"
#include "net/plan.h"

namespace fops {

// The maximum number of stages of a plan whose dense layers may use halves; in a longer plan they run in float32
// (route.cu). The limit exists because struct Recompute is a kernel argument, and kernel arguments are limited to 4 KB.
constexpr int kMostRecomputed = 20;

struct PlainStage {
  Stage::Kind kind;
  Activation activation;
  int C, H, W, units, OH, OW;  // sizes of input and output; the output of a dense stage is (units, 1, 1)
  int K;                       // side of the filters; 1 if there is no convolution
  int size, stride;            // of the pool's windows; both are 1 if there is no pool
  const float *w, *bias;       // original weights and bias
};

struct DoubtfulLayer {
  const __half *x, *w;                  // the high parts of inputs (n, row) and weights (units, row)
  const float *unscale, *bias, *least;  // as in DenseWeights
  float x_unscale, share;               // share: factor for `least` (least_share)
  int row, units;                       // row: padded number of values per row
  Doubts doubts;
};

struct Recompute {
  PlainStage stages[kMostRecomputed];
  DoubtfulLayer layers[kMostRecomputed];
  int stage_count = 0, layer_count = 0;
  unsigned blocks = 0;
  unsigned* again = nullptr;  // (n): a flag per item that must be recomputed; all zero before and after the kernel
  float* scratch = nullptr;   // two tensors per block, of `largest` values each
  long long largest = 0, out_size = 0;
  bool ahead = false;  // whether the last step's kernel sets no bits, so that they can be read while it runs
};
static_assert(sizeof(Recompute) <= 3500, "a kernel's arguments");

}  // namespace fops
