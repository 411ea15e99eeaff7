// Packs the weights of conv_pixels.cu on the host: scales them, splits them into halves, and writes them in the order
// in which the kernel's lanes read them.
#include <algorithm>
#include <cmath>
#include <cstring>

#include "gpu/isa/tanh.cuh"
#include "net/cuda/kernels/conv_pixels/layout.cuh"
#include "net/cuda/kernels/stages.h"

namespace fops {

bool pack_conv_pixels(const Stage& stage, const float* k, PixelWeights* out) {
  using namespace fused_pixels;
  const int M = static_cast<int>(stage.out.C), full = (M + 7) / 16, rest = M % 16 >= 1 && M % 16 <= 8;
  float largest = 0.0f;
  for (int i = 0; i < M * kTaps; ++i) {
    if (!std::isfinite(k[i])) return false;
    largest = std::max(largest, std::fabs(k[i]));
  }
  // The scale brings the largest weight into [2^13, 2^14), where the low parts lose no bits that matter, or as near to
  // that range as uint8 pixels allow. They allow 2^-5 to 2^24, because the kernel multiplies them by the inverse: 2^-24
  // is half precision's smallest magnitude, and 1024 * 2^5 is within its range. The general kernels compute the layer
  // if the largest weight is below 2^-24 or from 2^19 on, or if a nonzero weight is so far below the largest (about
  // 2^-17 of it) that its low part loses bits that matter.
  const int exponent = largest > 0 ? std::ilogb(largest) : 0;
  if (exponent < -24 || exponent > 18) return false;
  const float scale = std::ldexp(1.0f, std::max(-5, std::min(24, 13 - exponent)));
  for (int i = 0; i < M * kTaps; ++i)
    if (k[i] != 0.0f && std::fabs(k[i]) * scale < kLeastWeight) return false;
  out->unscale = 1.0f / scale;
  const auto part = [&](int m, int p, int q, bool low) {
    if (m >= M || q < 0 || q >= K) return 0u;
    const double v = kTanhArgument * k[m * kTaps + p * K + q] * scale;  // so sums need no factor for tanh_of_argument
    const __half hi = __float2half_rn(static_cast<float>(v));
    const __half value = low ? __float2half_rn(static_cast<float>(v - __half2float(hi))) : hi;
    uint16_t bits;
    memcpy(&bits, &value, sizeof bits);
    return static_cast<uint32_t>(bits);
  };
  const bool two = two_outputs(M);
  const int fragments = two ? (M + 7) / 8 * 2 * kSteps : (2 * full + rest) * kSteps;
  out->packed.assign(static_cast<size_t>(fragments) * 32 * 4, 0);
  size_t at = 0;
  for (int fragment = 0; fragment < fragments; ++fragment)
    for (int lane = 0; lane < 32; ++lane)
      for (int e = 0; e < 4; ++e, ++at) {
        const int tile = fragment / (2 * kSteps), step = fragment % kSteps, i = (2 * step + e / 2) * 4 + lane % 4;
        const Pair pair = two ? pair_of_two(i) : pair_of_one(i);
        if (pair.padding) continue;
        // shared_tile: OneOutput's tile with kRest, which has both parts. second: whether the row is 8 to 15.
        const bool shared_tile = !two && tile == full, second = e % 2 == 1;
        const bool low = shared_tile ? second : fragment % (2 * kSteps) < kSteps;
        const int m = two ? 8 * tile + lane / 4 : 16 * tile + lane / 4 + (second && !shared_tile ? 8 : 0);
        const int q = pair.q - (two && second);
        out->packed[at] = part(m, pair.p, q, low) | part(m, pair.p, q + 1, low) << 16;
      }
  return true;
}

}  // namespace fops
