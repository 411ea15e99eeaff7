// The eleven convolutions of the course's six networks as types, for the kernels of steps 7 and 8, in which all sizes
// are compile-time constants.
#pragma once

#include "conv/cuda/dims.h"

namespace fops {

template <int C_, int H_, int W_, int M_, int K_>
struct CourseLayer {
  static constexpr int C = C_, H = H_, W = W_, M = M_, K = K_, OH = H - K + 1, OW = W - K + 1;
  static bool is(const fops_conv& c) { return c.C == C && c.H == H && c.W == W && c.M == M && c.K == K; }
};

template <typename... Layers>
struct CourseLayerList {};
using CourseLayers = CourseLayerList<CourseLayer<1, 28, 28, 50, 5>,                                  // fa2017
                                     CourseLayer<1, 64, 64, 6, 5>, CourseLayer<6, 30, 30, 16, 5>,    // sp2018
                                     CourseLayer<1, 72, 72, 12, 7>, CourseLayer<12, 33, 33, 24, 7>,  // fa2018
                                     CourseLayer<1, 48, 48, 6, 5>, CourseLayer<6, 22, 22, 16, 5>,    // sp2019
                                     CourseLayer<1, 70, 70, 12, 5>, CourseLayer<12, 33, 33, 24, 5>,  // fa2019
                                     CourseLayer<1, 86, 86, 4, 7>, CourseLayer<4, 40, 40, 16, 7>>;   // fa2020

template <typename... Layers>
bool is_one_of(const fops_conv& c, CourseLayerList<Layers...>) {
  return (Layers::is(c) || ...);
}

inline bool is_course_layer(const fops_conv& c) { return is_one_of(c, CourseLayers{}); }

template <typename F, typename... Layers>
fops_status with_one_of(const fops_conv& c, F f, CourseLayerList<Layers...>) {
  fops_status status = FOPS_UNSUPPORTED;
  static_cast<void>(((Layers::is(c) && (status = f(Layers{}), true)) || ...));
  return status;
}

// Calls `f` with the CourseLayer that has the sizes of `c`. There must be one: see is_course_layer.
template <typename F>
fops_status with_course_layer(const fops_conv& c, F f) {
  return with_one_of(c, f, CourseLayers{});
}

}  // namespace fops
