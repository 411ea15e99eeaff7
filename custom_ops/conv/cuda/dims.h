#pragma once

#include <climits>
#include <cstdint>

#include "conv/kernel.h"
#include "gpu/launch.h"

namespace fops {

// The sides of a tensor fit into an int (takes_any checks that). The number of a tensor's values may not: 10,000 images
// of fa2017 already have 2.9e8 outputs, 1.15e9 bytes. So B has 64 bits, and kernels compute an image's address in 64
// bits.
struct Dims {
  long long B;
  int C, H, W, M, K, OH, OW;
};

inline Dims dims(const fops_conv& c) {
  const auto side = [](int64_t size) { return static_cast<int>(size); };
  return {c.B, side(c.C), side(c.H), side(c.W), side(c.M), side(c.K), side(out_h(c)), side(out_w(c))};
}

// Whether a kernel for any shape supports `c`: the sides, and the number of products per output, fit into an int.
inline bool takes_any(const fops_conv& c) {
  return c.C <= INT_MAX && c.H <= INT_MAX && c.W <= INT_MAX && c.M <= INT_MAX && c.K <= INT_MAX &&
         c.C * c.K * c.K <= INT_MAX;
}

// Return numbers of values, which predicates compare with small limits. A number that would overflow 64 bits becomes
// INT64_MAX.
inline int64_t saturating(double value) { return value < 9e18 ? static_cast<int64_t>(value) : INT64_MAX; }
inline int64_t image_floats(const fops_conv& c) { return saturating(1.0 * c.C * c.H * c.W); }
inline int64_t weight_floats(const fops_conv& c) { return saturating(1.0 * c.M * c.C * c.K * c.K); }
inline int64_t output_floats(const fops_conv& c) { return saturating(1.0 * c.M * out_h(c) * out_w(c)); }

}  // namespace fops
