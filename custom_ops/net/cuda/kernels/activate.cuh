// A stage's activation of one value.
#pragma once

#include "gpu/isa/tanh.cuh"
#include "net/plan.h"

namespace fops {

// All threads have the same activation: the branches cost next to nothing. NaN stays NaN.
__device__ inline float activate(Activation activation, float v) {
  if (activation == Activation::tanh) return tanh_scaled(v);
  return activation == Activation::relu && v < 0.0f ? 0.0f : v;
}

}  // namespace fops
