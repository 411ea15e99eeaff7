// The weights of conv_pixels.cu, on the host: scaled, split, and in the order in which its lanes read them.
#include <algorithm>
#include <cmath>
#include <cstring>

#include "gpu/isa/tanh.cuh"
#include "net/cuda/kernels/conv_pixels/layout.cuh"
#include "net/cuda/kernels/stages.h"

namespace fops {

bool pack_conv_pixels(const Stage& stage, const float* k, PixelWeights* out) {
  using namespace fused_pixels;
  const int M = static_cast<int>(stage.out.C), full = tiles_of(M), rest = has_rest(M);
  float largest = 0.0f;
  for (int i = 0; i < M * kTaps; ++i) {
    if (!std::isfinite(k[i])) return false;
    largest = std::max(largest, std::fabs(k[i]));
  }
  // The largest weight comes to lie in [2^13, 2^14), where its low half keeps all that counts; or as near as uint8
  // pixels allow, which are scaled by the inverse: 2^-24 is the least half, 1024 * 2^5 within its range. Weights beyond
  // that, below 2^-24 or above 2^18, are left to the general way; and so are those of which one is so far below the
  // largest, 2^-17 of it, that its low half loses bits that count.
  const int exponent = largest > 0 ? std::ilogb(largest) : 0;
  if (exponent < -24 || exponent > 18) return false;
  const float scale = std::ldexp(1.0f, std::max(-5, std::min(24, 13 - exponent)));
  for (int i = 0; i < M * kTaps; ++i)
    if (k[i] != 0.0f && std::fabs(k[i]) * scale < kLeastWeight) return false;
  out->unscale = 1.0f / scale;
  const auto part = [&](int m, int p, int q, bool low) {
    if (m >= M || q >= K) return 0u;
    const double v = kTanhArgument * k[m * kTaps + p * K + q] * scale;  // the sums are to be tanh's arguments
    const __half hi = __float2half_rn(static_cast<float>(v));
    const __half value = low ? __float2half_rn(static_cast<float>(v - __half2float(hi))) : hi;
    uint16_t bits;
    memcpy(&bits, &value, sizeof bits);
    return static_cast<uint32_t>(bits);
  };
  out->packed.assign(static_cast<size_t>(fragments(full, rest)) * 32 * 4, 0);
  size_t at = 0;
  for (int fragment = 0; fragment < fragments(full, rest); ++fragment)
    for (int lane = 0; lane < 32; ++lane)
      for (int e = 0; e < 4; ++e, ++at) {
        const int tile = fragment / (2 * kSteps), step = fragment % kSteps;
        const int pair = (2 * step + e / 2) * 4 + lane % 4;
        if (pair == kPadding) continue;
        const bool shared_tile = tile == full, second = e % 2 == 1;
        const bool low = shared_tile ? second : fragment % (2 * kSteps) < kSteps;
        const int m = 16 * tile + lane / 4 + (second && !shared_tile ? 8 : 0), p = pair_p(pair), q = pair_q(pair);
        out->packed[at] = part(m, p, q, low) | part(m, p, q + 1, low) << 16;
      }
  return true;
}

}  // namespace fops
