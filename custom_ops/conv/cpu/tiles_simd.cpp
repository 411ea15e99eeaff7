// Implicit GEMM on AMX tiles, with float32 accuracy: each float32 is split into three bfloat16 parts (split.h), and the
// product of two float32 is the sum of six products of parts.
//
//     16 positions of a row x 16 channels            16 channels x 16 filters            16 positions x 16 filters
//     x2 of 8 pairs | x1 of 8 pairs            x     w1 of 8 pairs                =      + x2 w1 + x1 w1
//     (a 64-byte line per position)                  w1 of 8 pairs                       also x1 w3 + x3 w1, x2 w2 + x1 w2
//
// The layout is such that a tap (p, q) is an offset of whole lines. Otherwise rows of tiles would cross cache lines, and a
// load of a tile would take 50 cycles instead of 8.
// Costs: activations are split and transposed, and outputs are transposed back, in 0.6 cycles per number.
// Gains: 16 times the rate of AVX-512's multiply-adds, for six times as many products. The shifted kernel computes images
// with infinities, NaN, or other values that cannot be split; and all images if a weight cannot be split.
#include <atomic>
#include <vector>

#include "base/isa.h"
#include "base/scratch.h"
#include "base/status.h"
#include "base/thread_pool.h"
#include "conv/cpu/kernels.h"
#include "conv/cpu/tiles_kernel.h"

namespace fops::FOPS_ISA {
namespace {

constexpr int64_t kBandBytes =
    1 << 20;  // limit for the bytes of a band's activations, for a second-level cache of 2 MB

template <class Tiles, typename T>
fops_status convolve(const fops_conv& conv, const T* x, const float* k, float* y) {
  const int threads = pool_threads();
  const int64_t H_out = out_h(conv), y_plane = H_out * out_w(conv), image = conv.C * conv.H * conv.W;

  // An item is a band of an image, for a group of filter tiles. If there are many images, a band is as large as the cache
  // allows, and there is one group. Otherwise images are divided into smaller bands, and only then filter tiles into
  // groups, because each group splits the activations of its band again.
  const int64_t wanted = ceil_div(3 * threads, conv.B);
  const int64_t row_bytes = ceil_div(conv.C, kStep) * 2 * conv.W * kTileStride;
  int64_t rows = std::max<int64_t>(1, kBandBytes / row_bytes - (conv.K - 1));
  rows = std::min({rows, H_out, std::max<int64_t>(conv.K, ceil_div(H_out, wanted))});
  rows = ceil_div(H_out, ceil_div(H_out, rows));
  const int64_t bands = ceil_div(H_out, rows);
  const Tiling t = tiling(conv, rows);
  const int64_t groups = std::min(t.filter_tiles(), std::max<int64_t>(1, wanted / bands));

  const int64_t weight_numbers = t.filter_tiles() * t.steps() * kWeightStep;
  const int64_t own = std::max(t.activations(), ceil_div(conv.C * conv.K * conv.K, kLine) * kLine * kLine);
  uint32_t* const weights = static_cast<uint32_t*>(scratch((weight_numbers + own * threads) * 4));
  if (!weights) return fail(FOPS_OUT_OF_MEMORY, "out of host memory; use fewer threads");
  std::vector<int64_t> offsets(t.steps());
  for (int64_t s = 0; s < t.steps(); ++s) offsets[s] = t.offset(s);

  std::atomic<bool> fit{true};
  parallel_for(t.filter_tiles(), threads, [&](int64_t tile, int worker) {
    float* const transposed = reinterpret_cast<float*>(weights + weight_numbers + worker * own);
    if (!split_weights(t, k, tile, transposed, weights + tile * t.steps() * kWeightStep)) fit = false;
  });
  if (!fit) return conv_shifted(conv, x, k, y, nullptr);

  std::vector<std::atomic<bool>> left(conv.B);  // per image: whether the shifted kernel has to compute it
  parallel_for(conv.B * bands * groups, threads, [&](int64_t item, int worker) {
    const int64_t group = item % groups, h = item / groups % bands * rows, b = item / groups / bands;
    const int64_t count = std::min(rows, H_out - h), tiles = t.filter_tiles();
    const T* from = x + b * image + h * conv.W;
    for (int64_t c = 0; c < conv.C; ++c)
      if (!splittable(from + c * conv.H * conv.W, (count + conv.K - 1) * conv.W)) {
        left[b] = true;
        return;
      }
    uint32_t* const activations = weights + weight_numbers + worker * own;
    split_band(t, from, count, activations);
    multiply_band<Tiles>(t, offsets.data(), activations, weights, count, tiles * group / groups,
                         tiles * (group + 1) / groups, y + b * conv.M * y_plane + h * out_w(conv), y_plane);
  });
  fops_conv one = conv;
  one.B = 1;
  for (int64_t b = 0; b < conv.B; ++b)
    if (left[b])
      if (const fops_status s = conv_shifted(one, x + b * image, k, y + b * conv.M * y_plane, nullptr)) return s;
  return FOPS_OK;
}

}  // namespace

fops_status conv_tiles(const fops_conv& conv, const void* x, const float* k, float* y, void*) {
#if defined(__AVX512F__)
  if (amx()) return with_input(conv, x, [&](auto* typed) { return convolve<HardwareTiles>(conv, typed, k, y); });
#endif
  return with_input(conv, x, [&](auto* typed) { return convolve<EmulatedTiles>(conv, typed, k, y); });
}

}  // namespace fops::FOPS_ISA
