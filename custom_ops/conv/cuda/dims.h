// A convolution as the device sees it: its sizes, the predicates' arithmetic, the element type of x.
#pragma once

#include <climits>
#include <cstdint>

#include "conv/kernel.h"
#include "gpu/launch.h"

namespace fops {

// One side of a tensor fits in an int (takes_any checks it); a whole tensor does not, so B stays 64 bits wide and
// every kernel forms its base pointers in 64 bits: 10,000 images of fa2017 are already 2.9e8 outputs, 1.15e9 bytes.
struct Dims {
  long long B;
  int C, H, W, M, K, OH, OW;
};

inline Dims dims(const fops_conv& c) {
  return {c.B,
          static_cast<int>(c.C),
          static_cast<int>(c.H),
          static_cast<int>(c.W),
          static_cast<int>(c.M),
          static_cast<int>(c.K),
          static_cast<int>(out_h(c)),
          static_cast<int>(out_w(c))};
}

inline bool takes_any(const fops_conv& c) {
  return c.C <= INT_MAX && c.H <= INT_MAX && c.W <= INT_MAX && c.M <= INT_MAX && c.K <= INT_MAX &&
         c.C * c.K * c.K <= INT_MAX;
}

// Products that could overflow 64 bits for absurd sizes, saturated: predicates compare them with small limits.
inline int64_t saturating(double value) { return value < 9e18 ? static_cast<int64_t>(value) : INT64_MAX; }
inline int64_t image_floats(const fops_conv& c) { return saturating(1.0 * c.C * c.H * c.W); }
inline int64_t weight_floats(const fops_conv& c) { return saturating(1.0 * c.M * c.C * c.K * c.K); }
inline int64_t output_floats(const fops_conv& c) { return saturating(1.0 * c.M * out_h(c) * out_w(c)); }

// Calls `f` with x cast to the convolution's type.
template <typename F>
fops_status with_input(const fops_conv& c, const void* x, F f) {
  return c.x_type == FOPS_UINT8 ? f(static_cast<const uint8_t*>(x)) : f(static_cast<const float*>(x));
}

}  // namespace fops
