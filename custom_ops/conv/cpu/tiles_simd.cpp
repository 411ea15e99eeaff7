// Implicit GEMM on AMX tiles, at float32 grade: every float32 as three bfloat16 parts (split.h), six products a pair.
//
//   a tile of weights                 a tile of activations                a tile of outputs
//   16 filters x 32 inputs      x     32 inputs x 16 positions       =     16 filters x 16 positions, rows of y
//
// Positions follow one another in memory, and so do the outputs of a filter: nothing is transposed. Two inputs that
// differ in the channel lie side by side (the instruction wants pairs), and a tap (p, q) is an offset, as in
// shifted_simd.cpp. Where C is small, K or K * K shifted copies of each channel fill the 32 inputs of a tile.
//
// Gains: 16 times the rate of AVX-512's multiply-adds for 6 products a pair, 3 where x is pixels. Images whose values
// do not fit the parts' range, infinities and NaN are left to the shifted kernel.
#include <atomic>
#include <cmath>
#include <cstdlib>

#include "base/isa.h"
#include "base/scratch.h"
#include "base/status.h"
#include "base/thread_pool.h"
#include "conv/cpu/kernels.h"
#include "conv/cpu/tiles_kernel.h"

namespace fops {
namespace FOPS_ISA {

namespace {

constexpr int64_t kBandBytes = 768 << 10;  // a band's parts, in a second-level cache of 2 MB

// Cycles of a convolution's image by the measured costs of both halves: 0.3 an input of a copy to split, 16 a product.
double cycles(const TileLayout& l, int64_t rows) {
  return 0.3 * l.depth() * l.rows_read(rows) * l.pitch +
         16.0 * 3 * l.steps() * l.filter_tiles() * ceil_div(rows * l.pitch, 16);
}

// Steps of a chain. A product is rounded 8 + 1 times in its instruction, once for each later step of its chain and for
// each later chain; what is left out is worth one more, and small parts 0.03 a step.
int64_t chain_of(const TileLayout& l) {
  const double most = 4 + std::sqrt(static_cast<double>(l.C * l.K * l.K)) - 10.5 - 0.03 * l.steps();
  for (int64_t chain = l.steps(); chain > 1; --chain)
    if (chain + ceil_div(l.steps(), chain) - 1 <= most) return chain;
  return 1;
}

TileLayout choose_layout(const fops_conv& c) {
  TileLayout best = {};
  double least = 0;
  for (const int64_t copies : {int64_t{1}, c.K, c.K * c.K}) {
    const TileLayout l = tile_layout(c, copies, out_h(c));
    const double cost = cycles(l, out_h(c));
    if (!best.C || cost < least) best = l, least = cost;
  }
  return best;
}

template <class Tiles, typename T>
void band(const TileLayout& l, const int64_t* shifts, const T* x, int64_t rows, const uint32_t* weights,
          int64_t first_tile, int64_t last_tile, uint32_t* scratch, float* y, int64_t y_plane) {
  const int64_t chain_steps = chain_of(l);
  const int64_t W_out = l.W - l.K + 1, positions = (rows - 1) * l.pitch + W_out;
  const int64_t tiles = ceil_div(positions, kTileColumns), blocks = ceil_div(tiles, kBlockTiles);
  split_band(l, x, rows, scratch);
  Tiles unit(static_cast<int>(l.filters));
  alignas(64) float chain[kTileRows * kBlock], total[kTileRows * kBlock];
  for (int64_t tile = first_tile; tile < last_tile; ++tile) {
    const int64_t m = tile * l.filters, filters = std::min(l.filters, l.M - m);
    const uint32_t* w = weights + tile * l.steps() * kWeightStep;
    for (int64_t block = 0; block < blocks; ++block) {
      const int64_t from = tiles * block / blocks, count = tiles * (block + 1) / blocks - from;
      const int64_t begin = from * kTileColumns, end = std::min(begin + count * kTileColumns, positions);
      const float* sums = chain;
      for (int64_t s = 0; s < l.steps(); s += chain_steps) {
        tile_chain(unit, static_cast<int>(count), shifts, s, std::min(s + chain_steps, l.steps()), scratch + begin,
                          l.line, w, s ? chain : total);
        if (s)
          for (int64_t f = 0; f < filters; ++f)
            for (int64_t i = f * kBlock; i < f * kBlock + count * kTileColumns; i += kLanes)
              store(total + i, load(total + i) + load(chain + i));
      }
      sums = total;
      if (l.pitch == W_out) {
        for (int64_t f = 0; f < filters; ++f) copy_floats(sums + f * kBlock, end - begin, y + (m + f) * y_plane + begin);
      } else {
        for (int64_t at = begin; at < end;) {
          const int64_t h = at / l.pitch, w0 = at % l.pitch, n = std::min(W_out - w0, end - at);
          if (n > 0)
            for (int64_t f = 0; f < filters; ++f)
              copy_floats(sums + f * kBlock + at - begin, n, y + (m + f) * y_plane + h * W_out + w0);
          at = (h + 1) * l.pitch;
        }
      }
    }
  }
}

template <class Tiles, typename T>
fops_status convolve(const fops_conv& conv, const T* x, const float* k, float* y) {
  const int threads = pool_threads();
  TileLayout l = choose_layout(conv);
  const int64_t H_out = out_h(conv), y_plane = H_out * out_w(conv), image = conv.C * conv.H * conv.W;

  // Items: whole images where there are many; else bands of rows, then groups of filter tiles, for which a band is
  // split anew.
  const int64_t wanted = ceil_div(3 * threads, conv.B), row_bytes = l.depth() * l.pitch * 6;
  int64_t rows = std::max<int64_t>(1, kBandBytes / row_bytes - (l.rows_read(0)));
  const int64_t fewest = ceil_div(kBlock, l.pitch);
  rows = std::min({rows, H_out, std::max(fewest, ceil_div(H_out, wanted))});
  const int64_t bands = ceil_div(H_out, rows);
  rows = ceil_div(H_out, bands);
  const int64_t groups = std::min(l.filter_tiles(), std::max<int64_t>(1, wanted / bands));
  l = tile_layout(conv, l.copies, rows);

  const int64_t weight_pairs = l.filter_tiles() * l.steps() * kWeightStep;
  const int64_t band_pairs = ceil_div(l.chunks() * kStepLines * l.line + kBlock, 16) * 16;
  uint32_t* const weights = static_cast<uint32_t*>(scratch((weight_pairs + band_pairs * threads) * 4));
  if (!weights) return fail(FOPS_OUT_OF_MEMORY, "out of host memory; use fewer threads");
  std::vector<int64_t> shifts(l.steps());
  for (int64_t s = 0; s < l.steps(); ++s)
    shifts[s] = s / l.taps() * kStepLines * l.line + l.shift(s % l.taps());

  std::atomic<bool> weights_fit{true};
  parallel_for(l.filter_tiles(), threads, [&](int64_t tile, int) {
    if (!split_weights(l, k, tile, weights + tile * l.steps() * kWeightStep)) weights_fit = false;
  });
  if (!weights_fit) return conv_shifted(conv, x, k, y, nullptr);

  std::vector<char> left(conv.B);  // images for the shifted kernel
  parallel_for(conv.B * bands * groups, threads, [&](int64_t item, int worker) {
    const int64_t group = item % groups, h = item / groups % bands * rows, b = item / groups / bands;
    const int64_t count = std::min(rows, H_out - h);
    const T* from = x + b * image + h * conv.W;
    for (int64_t c = 0; c < conv.C; ++c)
      if (!splittable(from + c * conv.H * conv.W, (count + conv.K - 1) * conv.W)) {
        __atomic_store_n(&left[b], 1, __ATOMIC_RELAXED);
        return;
      }
    const int64_t tiles = l.filter_tiles();
    band<Tiles>(l, shifts.data(), from, count, weights, tiles * group / groups, tiles * (group + 1) / groups,
                       weights + weight_pairs + worker * band_pairs, y + b * conv.M * y_plane + h * out_w(conv),
                       y_plane);
  });
  fops_conv one = conv;
  one.B = 1;
  for (int64_t b = 0; b < conv.B; ++b)
    if (left[b])
      if (const fops_status s = conv_shifted(one, x + b * image, k, y + b * conv.M * y_plane, nullptr)) return s;
  return FOPS_OK;
}

template <class Tiles>
fops_status convolve_any(const fops_conv& conv, const void* x, const float* k, float* y) {
  if (conv.x_type == FOPS_UINT8) return convolve<Tiles>(conv, static_cast<const uint8_t*>(x), k, y);
  return convolve<Tiles>(conv, static_cast<const float*>(x), k, y);
}

}  // namespace

fops_status conv_tiles(const fops_conv& conv, const void* x, const float* k, float* y, void*) {
  return amx() ? convolve_any<HardwareTiles>(conv, x, k, y) : convolve_any<EmulatedTiles>(conv, x, k, y);
}

}  // namespace FOPS_ISA
}  // namespace fops
