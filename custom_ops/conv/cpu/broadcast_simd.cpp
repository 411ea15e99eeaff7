// Convolution with filters in the lanes of vectors: a tile of filters x positions of a row in registers, over all taps.
//
//   y[m][h][w..w+13] of 32 filters m:   for each tap (c, p, q):   w0 = weights of filters 0 to 15, w1 = of 16 to 31
//                                                                 for each of 14 positions j:
//                                         x of one input, in every lane:  acc[j][0] += x[c][h + p][w + q + j] * w0
//                                                                         acc[j][1] += x[c][h + p][w + q + j] * w1
//
// Gains: 28 multiply-adds need 16 loads, none of which crosses a cache line: weights are stored in reading order in whole
// lines, and each input is a single number. The end of a row costs nothing.
// Costs: weights are transposed once per call or item, and outputs once per tile.
// A sum has the same terms in the same order as in `direct`, if `direct` makes no copies of the image.
#include "base/scratch.h"
#include "base/status.h"
#include "base/summation.h"
#include "base/thread_pool.h"
#include "conv/cpu/broadcast_kernel.h"
#include "conv/cpu/inputs.h"
#include "conv/cpu/kernels.h"

namespace fops::FOPS_ISA {
namespace {

constexpr int64_t kBandBytes = 512 << 10;  // limit for the bytes of a band's inputs, to stay in a second-level cache
constexpr int64_t kFewBytes = 64 << 10;    // a band with fewer bytes of inputs is prefetched as a whole

// How the work is divided into items. An item is a band of output rows of an image, for a group of filter blocks.
struct Cut {
  int64_t rows, bands, groups;  // output rows per band; bands per image; groups of filter blocks
  bool apart;  // whether each item packs the weights that it needs; otherwise all weights are packed before the items run
};

Cut cut_of(const fops_conv& c, int threads) {
  const int64_t H_out = out_h(c), blocks = ceil_div(c.M, kBlockFilters);
  const int64_t most = std::clamp<int64_t>(kBandBytes / (c.C * c.W * 4) - (c.K - 1), 1, H_out);
  const int64_t fewest = ceil_div(H_out, most), more = threads > 1 && c.B * fewest < 16 * threads ? 8 : 1;
  // Picks the division with the least cost. The unit of cost is the time for the sums of one position for a block of
  // filters, which take one cycle per product. Packing a block's weights takes kPack units, and twice that if other threads
  // read them. In addition, each item takes kItem cycles, and a second call of parallel_for kJob cycles.
  constexpr double kPack = 12, kItem = 1000, kJob = 4000;
  const auto depth = static_cast<double>(c.C * c.K * c.K);
  Cut cut = {0, 0, 1, false};
  double least = 0;
  for (int64_t bands = fewest; bands < fewest + more && bands <= H_out; ++bands)
    for (int64_t n = 1; n <= (more > 1 ? 4 : 1); ++n)
      for (const bool apart : {false, true}) {
        const int64_t groups = std::clamp<int64_t>(n * threads / (c.B * bands), 1, blocks);
        const auto positions = static_cast<double>(ceil_div(H_out, bands) * out_w(c));
        const double item = (positions + (apart ? kPack : 0)) * static_cast<double>(ceil_div(blocks, groups));
        const double before = apart ? 0 : 2 * kPack * static_cast<double>(blocks) / threads + kJob / depth;
        const auto turns = static_cast<double>(ceil_div(c.B * bands * groups, threads));
        const double cost = before + (item + kItem / depth) * turns;
        if (least == 0 || cost < least) {
          least = cost;
          cut = {0, bands, groups, apart};
        }
      }
  cut.rows = ceil_div(H_out, cut.bands);
  cut.bands = ceil_div(H_out, cut.rows);
  return cut;
}

struct Weights {
  const float* k;       // the weights as the caller gave them
  const float* packed;  // the packed weights of all blocks; not read if `own` is set
  float* own;           // space in which an item packs the weights of one block; null if `packed` holds all blocks
};

// Computes the outputs of filter blocks [first, last) for the `rows` output rows of a band; y points at the band's
// first output of filter 0. far_x and far_y say that the inputs or outputs are too large for the near caches: they are
// then prefetched while the tiles of the previous row are computed.
void band(const fops_conv& c, const Products& p, const float* x, const Weights& weights, int64_t rows, int64_t first,
          int64_t last, bool far_x, bool far_y, float* y) {
  const int64_t W_out = out_w(c), y_plane = out_h(c) * W_out, tiles = ceil_div(W_out, kPositions);
  const RowSums run[] = {row_sums_of(W_out / tiles), row_sums_of(ceil_div(W_out, tiles))};
  alignas(64) float sums[kLine * kBlockFilters] = {};
  // If the band has few inputs, all of them are prefetched at once, because those of a channel are contiguous.
  const int64_t ahead = c.C * rows * c.W * 4 < kFewBytes ? rows : std::min<int64_t>(rows, 2);
  if (far_x) fetch(c, x, ahead + c.K - 1);
  for (int64_t f = first; f < last; ++f) {
    const int64_t m = f * kBlockFilters, filters = std::min<int64_t>(kBlockFilters, c.M - m);
    const float* packed = weights.own;
    if (packed)
      pack_block(weights.k + m * p.depth, filters, p.depth, 0, p.depth, weights.own);
    else
      packed = weights.packed + m * p.depth;
    for (int64_t h = 0; h < rows; ++h) {
      if (far_x && f == first && h + ahead < rows) fetch(c, x + (h + ahead + c.K - 1) * c.W, 1);
      for (int64_t i = 0; i < tiles; ++i) {
        const int64_t w = W_out * i / tiles, positions = W_out * (i + 1) / tiles - w;
        float* const row = y + m * y_plane + h * W_out;
        if (far_y && h + 1 < rows)
          for (int64_t r = filters * i / tiles; r < filters * (i + 1) / tiles; ++r)
            for (int64_t at = 0; at < W_out + 15; at += 16)
              __builtin_prefetch(row + r * y_plane + W_out + std::min(at, W_out - 1), 1);
        run[positions > W_out / tiles](p, x + h * c.W + w, packed, sums);
        store_sums(sums, positions, filters, row + w, y_plane);
      }
    }
  }
}

template <typename T>
fops_status convolve(const fops_conv& conv, const T* x, const float* k, float* y) {
  constexpr bool in_place = sizeof(T) == sizeof(float);
  const int64_t H_out = out_h(conv), W_out = out_w(conv), y_plane = H_out * W_out;
  const int64_t image = conv.C * conv.H * conv.W, depth = conv.C * conv.K * conv.K;
  const int threads = threads_for(conv);
  const Cut cut = cut_of(conv, threads);
  const int64_t blocks = ceil_div(conv.M, kBlockFilters);
  const int64_t channel = (in_place ? conv.H : cut.rows + conv.K - 1) * conv.W;
  const bool far = conv.B * std::max(image, conv.M * y_plane) * 4 > kFarBytes;
  // `wide` and `block` are numbers of floats: of a thread's inputs as float32, and of a block's packed weights. `own` is
  // the number for both, rounded up to whole pages, because the processor prefetches to the end of a page.
  const int64_t wide = in_place ? 0 : ceil_div(conv.C * channel, kLine) * kLine, block = depth * kBlockFilters;
  const int64_t own = ceil_div(wide + (cut.apart ? block : 0), 1024) * 1024, shared = cut.apart ? 0 : block * blocks;
  float* const memory = static_cast<float*>(scratch((own * threads + shared + depth * 2) * 4));
  if (!memory) return fail(FOPS_OUT_OF_MEMORY, "out of host memory; use fewer threads");
  float* const packed = memory + own * threads;
  int64_t* const taps = reinterpret_cast<int64_t*>(packed + shared);
  taps_of(conv.C, conv.K, channel, conv.W, 1, taps);

  if (!cut.apart) {
    constexpr int64_t kTaps = 1024;  // number of taps per item
    const int64_t pieces = ceil_div(depth, kTaps);
    parallel_for(blocks * pieces, threads, [&](int64_t item, int) {
      const int64_t m = item / pieces * kBlockFilters, begin = item % pieces * kTaps;
      pack_block(k + m * depth, std::min<int64_t>(kBlockFilters, conv.M - m), depth, begin,
                 std::min(begin + kTaps, depth), packed + m * depth);
    });
  }

  const Products p = {taps, depth, part_of_sum(depth)};
  parallel_for(conv.B * cut.bands * cut.groups, threads, [&](int64_t item, int worker) {
    const int64_t group = item % cut.groups, h = item / cut.groups % cut.bands * cut.rows;
    const int64_t b = item / cut.groups / cut.bands, rows = std::min(cut.rows, H_out - h);
    const int64_t first = blocks * group / cut.groups, last = blocks * (group + 1) / cut.groups;
    const T* const from = x + b * image + h * conv.W;
    float* const mine = memory + worker * own;
    const float* data = mine;
    if constexpr (in_place) {
      data = from;
    } else {
      for (int64_t c = 0; c < conv.C; ++c)
        widen(from + c * conv.H * conv.W, (rows + conv.K - 1) * conv.W, mine + c * channel);
    }
    const Weights weights = {k, packed, cut.apart ? mine + wide : nullptr};
    band(conv, p, data, weights, rows, first, last, in_place && far, far, y + b * conv.M * y_plane + h * W_out);
  });
  return FOPS_OK;
}

}  // namespace

fops_status conv_broadcast(const fops_conv& conv, const void* x, const float* k, float* y, void*) {
  return with_input(conv, x, [&](auto* typed) { return convolve(conv, typed, k, y); });
}

}  // namespace fops::FOPS_ISA
