#pragma once

#include "gpu/isa/tanh.cuh"
#include "net/plan.h"

namespace fops {

// Applies the activation. It is the same for all threads, so the branches cost next to nothing. NaN stays NaN.
__device__ inline float activate(Activation activation, float v) {
  if (activation == Activation::tanh) return tanh_scaled(v);
  return activation == Activation::relu && v < 0.0f ? 0.0f : v;
}

// Returns the larger of two values of a pool's window. If one of them is NaN, the result is NaN.
__device__ inline float max_or_nan(float a, float b) { return a > b || a != a ? a : b; }

}  // namespace fops
