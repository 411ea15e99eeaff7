// A convolution's inputs in place, for the kernels that read images in place: taps as offsets, rows prefetched, bytes
// widened.
#pragma once

#include <cstdint>
#include <cstring>

#include "base/simd.h"
#include "fashion_ops.h"

namespace fops {
namespace FOPS_ISA {

constexpr int64_t kFarBytes = 1 << 20;  // tensors larger than this are in no near cache

static inline int64_t ceil_div(int64_t a, int64_t b) { return (a + b - 1) / b; }

// The taps (c, p, q) of `channels` channels, as offsets.
static inline void taps_of(int64_t channels, int64_t K, int64_t channel, int64_t down, int64_t right, int64_t* taps) {
  for (int64_t c = 0; c < channels; ++c)
    for (int64_t p = 0; p < K; ++p)
      for (int64_t q = 0; q < K; ++q) *taps++ = c * channel + p * down + q * right;
}

// Prefetches `rows` rows, one channel after another: tiles read all channels at the same time, which are more streams
// than the processor can follow.
static inline void fetch(const fops_conv& c, const float* x, int64_t rows) {
  for (int64_t channel = 0; channel < c.C; ++channel)
    for (int64_t i = 0; i < rows * c.W; i += 16) __builtin_prefetch(x + channel * c.H * c.W + i, 0, 2);
}

static inline void widen(const uint8_t* x, int64_t count, float* to) {
  for (int64_t i = 0; i < count; ++i) to[i] = x[i];
}
static inline void widen(const float* x, int64_t count, float* to) { memcpy(to, x, count * sizeof(float)); }

}  // namespace FOPS_ISA
}  // namespace fops
