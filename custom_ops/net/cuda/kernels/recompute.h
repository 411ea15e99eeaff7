// What kernels/recompute.cu needs: the stages in their plain form, and the dense layers whose outputs may be in doubt.
#pragma once

#include <cuda_fp16.h>

#include "net/cuda/kernels/dense/dense.h"
#include "net/plan.h"

namespace fops {

// Of a plan at most; a longer one keeps to float32 (route.cu). All of it is a kernel's argument, of which there may be
// 4 KB.
constexpr int kMostRecomputed = 20;

struct PlainStage {
  Stage::Kind kind;
  Activation activation;
  int C, H, W, units, OH, OW;     // of the input and the output; a dense stage's output is (units, 1, 1)
  int K;                          // 1 where there is no convolution
  int size, stride;               // of the pool's windows; 1 where there is none
  const float *w, *bias;          // as they came
};

struct DoubtfulLayer {
  const __half *x, *w;  // the high halves, (n, row) and (units, row)
  const float *unscale, *bias, *least;
  float x_unscale, share;  // share: of `least`, see Doubts
  int row, units;
  Doubts doubts;
};

struct Recompute {
  PlainStage stages[kMostRecomputed];
  DoubtfulLayer layers[kMostRecomputed];
  int stage_count = 0, layer_count = 0;
  unsigned blocks = 0;
  unsigned* again = nullptr;   // (n): the items to compute again; zeros before and behind
  float* scratch = nullptr;    // two tensors a block, of `largest` values each
  long long largest = 0, out_size = 0;
  bool ahead = false;          // the step before this one sets no bits: they can be read while it works
};
static_assert(sizeof(Recompute) <= 3500, "a kernel's arguments");

}  // namespace fops
