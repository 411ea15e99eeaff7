// The five convolutions of the course's three networks, as types, for the kernels whose sizes are compile-time
// constants (steps 7 and 8).
#pragma once

#include "conv/cuda/dims.h"

namespace fops {

template <int C_, int H_, int W_, int M_, int K_>
struct CourseLayer {
  static constexpr int C = C_, H = H_, W = W_, M = M_, K = K_, OH = H - K + 1, OW = W - K + 1;
  static bool is(const fops_conv& c) { return c.C == C && c.H == H && c.W == W && c.M == M && c.K == K; }
};

using Fa2017Conv = CourseLayer<1, 28, 28, 50, 5>;
using Sp2018Conv1 = CourseLayer<1, 64, 64, 6, 5>;
using Sp2018Conv2 = CourseLayer<6, 30, 30, 16, 5>;
using Fa2019Conv1 = CourseLayer<1, 70, 70, 12, 5>;
using Fa2019Conv2 = CourseLayer<12, 33, 33, 24, 5>;

inline bool is_course_layer(const fops_conv& c) {
  return Fa2017Conv::is(c) || Sp2018Conv1::is(c) || Sp2018Conv2::is(c) || Fa2019Conv1::is(c) || Fa2019Conv2::is(c);
}

// Calls `f` with the layer that `c` is; `c` is one of the five.
template <typename F>
fops_status with_course_layer(const fops_conv& c, F f) {
  if (Fa2017Conv::is(c)) return f(Fa2017Conv{});
  if (Sp2018Conv1::is(c)) return f(Sp2018Conv1{});
  if (Sp2018Conv2::is(c)) return f(Sp2018Conv2{});
  if (Fa2019Conv1::is(c)) return f(Fa2019Conv1{});
  return f(Fa2019Conv2{});
}

}  // namespace fops
