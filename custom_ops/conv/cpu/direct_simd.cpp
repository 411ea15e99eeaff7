// Convolution of an image where it lies: a tile of filters x positions in registers, over all taps (c, p, q).
//
//   positions of an image follow one another, whatever its rows     a b c d e      tap (0, 0)  a b c d e f g h i j k l
//   are: a tap is an offset. Columns that belong to no output        f g h i j      tap (0, 1)  b c d e f g h i j k l m
//   (here d, e, i, j) are computed and dropped                       k l m n o      tap (1, 0)  f g h i j k l m n o ...
//
// Costs: W / W_out of the arithmetic. Where that is more than K copies of the image cost, the positions are those of
// shifted_simd.cpp's copies, none of which is dropped. Gains: for 1x1 and wide images no copy at all; a tile's inputs
// stay in the first-level cache for all filters.
#include <vector>

#include "base/scratch.h"
#include "base/status.h"
#include "base/thread_pool.h"
#include "conv/cpu/direct_kernel.h"
#include "conv/cpu/kernels.h"
#include "conv/cpu/shifted_kernel.h"

namespace fops {
namespace FOPS_ISA {

namespace {

constexpr int64_t kBandBytes = 256 << 10;  // of a band's inputs or copies, in a second-level cache
constexpr int64_t kFarBytes = 1 << 20;     // tensors larger than this are in no near cache
// Sums of fewer products are computed for all of a band's positions before the next filters: outputs are then written
// one after another. Longer ones for all filters before the next positions, which stay in the first-level cache.
constexpr int64_t kShort = 200;

struct Layout {
  bool copies;             // K shifted ones, else the image where it lies or as it is widened from pixels
  int64_t pitch;           // positions from one output row to the next
  int64_t channel, down, right;  // and to the next channel, p and q
};

// A dropped column costs M K multiply-adds for each channel and q; a copy about as much as 10 of them.
bool copies_pay(const fops_conv& c) {
  return c.M * c.K * (c.W - out_w(c)) > 10 * out_w(c);
}

Layout layout(const fops_conv& c, int64_t rows) {
  if (!copies_pay(c)) return {false, c.W, c.H * c.W, c.W, 1};
  const int64_t plane = (rows + c.K - 1) * out_w(c);
  return {true, out_w(c), c.K * plane, out_w(c), plane};
}

void copy(const float* from, int64_t count, float* to) {
  int64_t i = 0;
  for (; i + kLanes <= count; i += kLanes) store(to + i, load(from + i));
  if (i < count && count >= kLanes)
    store(to + count - kLanes, load(from + count - kLanes));  // some of it again
  else
    for (; i < count; ++i) to[i] = from[i];
}

// Outputs [begin, end) of `filters` rows of a tile's sums, that many floats apart, to y. Positions are of rows of
// `pitch`, of which the first W_out are outputs.
void drop_columns(const float* sums, int64_t width, int64_t filters, int64_t begin, int64_t end, int64_t pitch,
                  int64_t W_out, float* y, int64_t y_plane) {
  for (int64_t at = begin; at < end;) {
    const int64_t h = at / pitch, w = at % pitch, count = std::min(W_out - w, end - at);
    if (pitch == W_out) {
      for (int64_t r = 0; r < filters; ++r) copy(sums + r * width, end - begin, y + r * y_plane + begin);
      return;
    }
    for (int64_t r = 0; count > 0 && r < filters; ++r)
      copy(sums + r * width + at - begin, count, y + r * y_plane + h * W_out + w);
    at = (h + 1) * pitch;
  }
}

// `rows` output rows of the filter blocks [first, last); x is the first position, y the first row's of filter 0. What lies
// up to a vector behind the last position is read.
void band(const fops_conv& c, const Products& p, const Layout& l, const float* x, const float* k, int64_t rows,
          int64_t first, int64_t last, bool far, float* y) {
  const int64_t y_plane = out_h(c) * out_w(c), end = (rows - 1) * l.pitch + out_w(c);
  const int64_t vectors = (end + kLanes - 1) / kLanes, blocks = (vectors + kWide - 1) / kWide;
  const int64_t filter_blocks = (c.M + kFilters - 1) / kFilters;
  alignas(64) float sums[kTileFloats];
  const auto tile = [&](int64_t block, int64_t f) {
    const int64_t from = vectors * block / blocks, wide = vectors * (block + 1) / blocks - from;
    const int64_t begin = from * kLanes, stop = std::min(begin + wide * kLanes, end);
    const int64_t m = c.M * f / filter_blocks, filters = c.M * (f + 1) / filter_blocks - m;
    float* to = y + m * y_plane;
    if (far)
      for (int64_t r = 0; r < filters; ++r)
        for (int64_t v = 0; v < wide; ++v)
          __builtin_prefetch(to + r * y_plane + begin / l.pitch * out_w(c) + begin % l.pitch + v * kLanes, 1);
    tile_sums_of(filters, wide, std::make_integer_sequence<int, kFilters * kWide>())(p, x + begin, k + m * p.depth, sums);
    drop_columns(sums, wide * kLanes, filters, begin, stop, l.pitch, out_w(c), to, y_plane);
  };
  if (p.depth < kShort) {
    for (int64_t f = first; f < last; ++f)
      for (int64_t block = 0; block < blocks; ++block) tile(block, f);
  } else {
    for (int64_t block = 0; block < blocks; ++block)
      for (int64_t f = first; f < last; ++f) tile(block, f);
  }
}

// Fetches a band's rows into the second-level cache, one channel after another: tiles read all channels at once, more
// streams than the processor follows.
void fetch(const fops_conv& c, const float* x, int64_t rows) {
  for (int64_t channel = 0; channel < c.C; ++channel)
    for (int64_t i = 0; i < rows * c.W; i += 16) __builtin_prefetch(x + channel * c.H * c.W + i, 0, 2);
}

void widen(const uint8_t* x, int64_t count, float* to) {
  for (int64_t i = 0; i < count; ++i) to[i] = x[i];
}
void widen(const float* x, int64_t count, float* to) { memcpy(to, x, count * sizeof(float)); }

template <typename T>
fops_status convolve(const fops_conv& conv, const T* x, const float* k, float* y) {
  const int64_t H_out = out_h(conv), W_out = out_w(conv), image = conv.C * conv.H * conv.W;
  const int64_t depth = conv.C * conv.K * conv.K, y_plane = H_out * W_out;
  const int threads = threads_for(conv);

  // Items: images, bands of rows, groups of filter blocks. Where there are few images, groups share the work; bands only
  // where there are few filters too, for two bands both copy the rows that they share.
  const int64_t wanted = threads > 1 ? (2 * threads + conv.B - 1) / conv.B : 1;
  const bool copies = copies_pay(conv);
  const int64_t row_bytes = conv.C * (copies ? conv.K * W_out : conv.W) * 4;
  const int64_t most_rows = (copies ? 2 : 1) * kBandBytes / row_bytes - (conv.K - 1);
  const int64_t filter_blocks = (conv.M + kFilters - 1) / kFilters;
  const int64_t parts = (wanted + filter_blocks - 1) / filter_blocks;
  const int64_t rows = std::min(std::clamp<int64_t>(most_rows, 1, H_out), (H_out + parts - 1) / parts);
  const int64_t bands = (H_out + rows - 1) / rows;
  const int64_t groups = std::min(filter_blocks, (wanted + bands - 1) / bands);
  const Layout l = layout(conv, rows);

  const bool far = conv.B * std::max(image, conv.M * y_plane) * 4 > kFarBytes;
  const bool in_place = !copies && sizeof(T) == sizeof(float);
  const int64_t own = ((copies ? conv.C * l.channel : image) + 2 * kLanes + 15) / 16 * 16;
  float* const memory = static_cast<float*>(scratch((own * threads + depth * 2) * 4));
  if (!memory) return fail(FOPS_OUT_OF_MEMORY, "out of host memory; use fewer threads");
  int64_t* const taps = reinterpret_cast<int64_t*>(memory + own * threads);
  int64_t* tap = taps;
  for (int64_t c = 0; c < conv.C; ++c)
    for (int64_t p = 0; p < conv.K; ++p)
      for (int64_t q = 0; q < conv.K; ++q) *tap++ = c * l.channel + p * l.down + q * l.right;
  const Products products = {taps, depth, part_of_sum(depth)};

  parallel_for(conv.B * bands * groups, threads, [&](int64_t item, int worker) {
    const int64_t group = item % groups, h = item / groups % bands * rows, b = item / groups / bands;
    const int64_t count = std::min(rows, H_out - h);
    float* const mine = memory + worker * own;
    const T* from = x + b * image;
    const float* data = mine;
    if (copies) {
      shift(conv, from + h * conv.W, count + conv.K - 1, mine, l.right);
    } else if (in_place && (b + 1 < conv.B || h + count < H_out)) {  // what is read behind it, is there
      data = reinterpret_cast<const float*>(from) + h * conv.W;
    } else {
      const int64_t skip = h * conv.W;  // rows of the first channel that no output here needs
      widen(from + skip, image - skip, mine);
    }
    if (in_place && far) fetch(conv, data, count + conv.K - 1);
    band(conv, products, l, data, k, count, filter_blocks * group / groups, filter_blocks * (group + 1) / groups,
         far, y + b * conv.M * y_plane + h * W_out);
  });
  return FOPS_OK;
}

}  // namespace

fops_status conv_direct(const fops_conv& conv, const void* x, const float* k, float* y, void*) {
  if (conv.x_type == FOPS_UINT8) return convolve(conv, static_cast<const uint8_t*>(x), k, y);
  return convolve(conv, static_cast<const float*>(x), k, y);
}

}  // namespace FOPS_ISA
}  // namespace fops
