// Packs the weights of first_layer.cu and later_layer.cu on the host: scales them, splits them into halves, and writes
// them in the order in which the kernels' lanes read them.
#include <algorithm>
#include <cmath>
#include <cstring>

#include "gpu/isa/halves.cuh"
#include "net/cuda/kernels/conv_pool/conv_pool.h"
#include "net/cuda/kernels/conv_pool/layout.h"

namespace fops {
namespace {

// Returns the power of two that brings a filter's largest weight into [2^13, 2^14), as scale_for does on the device; 0
// if the filter has a weight that cannot be split well.
float filter_scale(const float* filter, int taps, float least) {
  float largest = 0.0f;
  for (int i = 0; i < taps; ++i) {
    if (!std::isfinite(filter[i])) return 0.0f;
    largest = std::max(largest, std::fabs(filter[i]));
  }
  if (largest >= kLargestScaled) return 0.0f;
  if (largest == 0.0f) return 1.0f;
  const float scale = std::ldexp(1.0f, std::max(-60, std::min(100, 13 - std::ilogb(largest))));
  for (int i = 0; i < taps; ++i)
    if (filter[i] != 0.0f && std::fabs(filter[i]) * scale < least) return 0.0f;
  return scale;
}

uint32_t half_bits(float v) {
  const __half half = __float2half_rn(v);
  uint16_t bits;
  memcpy(&bits, &half, sizeof bits);
  return bits;
}

// Sets out->packed to the weights, [tile][high, low][step][lane][register], followed by the inverses of the scales.
template <class Layout>
bool pack(const Stage& stage, const float* k, ConvPoolWeights* out) {
  const int M = static_cast<int>(stage.out.C), C = static_cast<int>(stage.in.C), K = static_cast<int>(stage.K);
  const int taps = C * K * K, steps = Layout::steps(K), tiles = (M + Layout::kFilters - 1) / Layout::kFilters;
  // The minimum magnitude of a nonzero scaled weight. Low parts without a factor are rounded to multiples of 2^-24, so
  // a value below 1/2 loses bits. From 0.2 on, a sum loses no more than half of sqrt(25) units of 2^-24, which
  // docs/precision.md allows.
  const float least = Layout::kLowScale > 1.0f ? min_scaled(static_cast<float>(taps)) : 0.2f;
  std::vector<float> scales(tiles * Layout::kFilters, 1.0f);
  for (int m = 0; m < M; ++m) {
    scales[m] = filter_scale(k + m * taps, taps, least);
    if (scales[m] == 0.0f) return false;
  }
  out->packed.clear();
  for (int tile = 0; tile < tiles; ++tile)
    for (const bool low : {false, true})
      for (int step = 0; step < steps; ++step)
        for (int lane = 0; lane < 32; ++lane)
          for (int e = 0; e < 4; ++e) {
            uint32_t word = 0;
            for (int i = 0; i < 2; ++i) {
              const conv_pool::Tap tap = Layout::tap(step, lane / 4 + e % 2 * 8, lane % 4 * 2 + i + e / 2 * 8);
              const int m = tile * Layout::kFilters + tap.filter;
              if (m >= M || tap.channel >= C || tap.p < 0 || tap.p >= K || tap.q < 0 || tap.q >= K) continue;
              const float v = k[m * taps + (tap.channel * K + tap.p) * K + tap.q] * scales[m];
              const float high = __half2float(__float2half_rn(v));
              word |= half_bits(low ? (v - high) * Layout::kLowScale : v) << 16 * i;
            }
            out->packed.push_back(word);
          }
  for (const float scale : scales) {
    const float inverse = 1.0f / scale;
    uint32_t word;
    memcpy(&word, &inverse, sizeof word);
    out->packed.push_back(word);
  }
  return true;
}

}  // namespace

bool pack_conv_pool(const Stage& stage, const float* k, ConvPoolWeights* out) {
  using namespace conv_pool;
  return stage.in.C == 1 ? pack<FirstLayer>(stage, k, out) : pack<LaterLayer>(stage, k, out);
}

}  // namespace fops
