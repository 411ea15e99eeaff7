// Functions for the kernels that read an image in place: they compute the offsets of taps, prefetch rows, and convert
// bytes to float32.
#pragma once

#include <cstdint>
#include <cstring>

#include "fashion_ops.h"

namespace fops::FOPS_ISA {

constexpr int64_t kFarBytes = 1 << 20;  // tensors with more bytes are considered too large for the near caches

static inline int64_t ceil_div(int64_t a, int64_t b) { return (a + b - 1) / b; }

// Writes the offsets of the taps (c, p, q) of `channels` channels to `taps`; channel, down and right are the distances
// from one c, p and q to the next.
static inline void taps_of(int64_t channels, int64_t K, int64_t channel, int64_t down, int64_t right, int64_t* taps) {
  for (int64_t c = 0; c < channels; ++c)
    for (int64_t p = 0; p < K; ++p)
      for (int64_t q = 0; q < K; ++q) *taps++ = c * channel + p * down + q * right;
}

// Prefetches `rows` rows of all channels. The processor does not do that by itself, because tiles read all channels at the
// same time, and these are more streams than it can follow.
static inline void fetch(const fops_conv& c, const float* x, int64_t rows) {
  for (int64_t channel = 0; channel < c.C; ++channel)
    for (int64_t i = 0; i < rows * c.W; i += 16) __builtin_prefetch(x + channel * c.H * c.W + i, 0, 2);
}

static inline void widen(const uint8_t* x, int64_t count, float* to) {
  for (int64_t i = 0; i < count; ++i) to[i] = x[i];
}
static inline void widen(const float* x, int64_t count, float* to) { memcpy(to, x, count * sizeof(float)); }

}  // namespace fops::FOPS_ISA
