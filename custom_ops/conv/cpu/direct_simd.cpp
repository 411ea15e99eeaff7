// Convolution of an image where it lies: a tile of filters x positions in registers, over all taps (c, p, q).
//
//   positions of an image follow one another, whatever its rows     a b c d e      tap (0, 0)  a b c d e f g h i j k l
//   are: a tap is an offset. Columns that belong to no output        f g h i j      tap (0, 1)  b c d e f g h i j k l m
//   (here d, e, i, j) are computed and dropped                       k l m n o      tap (1, 0)  f g h i j k l m n o ...
//
// Costs: W / W_out of the arithmetic. Where that is more than K copies of the image cost, the positions are those of
// shifted_simd.cpp's copies, none of which is dropped. Copies of many channels are made a chunk of channels at a time
// (direct_cut.h), and each chunk adds its sums to the outputs.
// Gains: for 1x1 and wide images no copy at all; a tile's inputs stay in the first-level cache for all filters.
#include "base/scratch.h"
#include "base/status.h"
#include "base/thread_pool.h"
#include "conv/cpu/direct_cut.h"
#include "conv/cpu/direct_kernel.h"
#include "conv/cpu/kernels.h"
#include "conv/cpu/shifted_kernel.h"

namespace fops {
namespace FOPS_ISA {

namespace {

constexpr int64_t kFarBytes = 1 << 20;  // tensors larger than this are in no near cache
// Sums of fewer products are computed for all of a band's positions before the next filters: outputs are then written
// one after another. Longer ones for all filters before the next positions, which stay in the first-level cache.
constexpr int64_t kShort = 200;

// to[i] = from[i], or the sum of both.
void put(const float* from, int64_t count, bool add, float* to) {
  int64_t i = 0;
  if (add) {
    for (; i + kLanes <= count; i += kLanes) store(to + i, load(to + i) + load(from + i));
  } else {
    for (; i + kLanes <= count; i += kLanes) store(to + i, load(from + i));
    if (i < count && count >= kLanes) {
      store(to + count - kLanes, load(from + count - kLanes));  // some of it again
      return;
    }
  }
  for (; i < count; ++i) to[i] = add ? to[i] + from[i] : from[i];
}

// Outputs [begin, end) of `filters` rows of a tile's sums, `width` floats apart, to y, or added to it. Positions are of
// rows of `pitch`, of which the first W_out are outputs.
void drop_columns(const float* sums, int64_t width, int64_t filters, int64_t begin, int64_t end, int64_t pitch,
                  int64_t W_out, bool add, float* y, int64_t y_plane) {
  for (int64_t at = begin; at < end;) {
    const int64_t h = at / pitch, w = at % pitch, count = std::min(W_out - w, end - at);
    if (pitch == W_out) {
      for (int64_t r = 0; r < filters; ++r) put(sums + r * width, end - begin, add, y + r * y_plane + begin);
      return;
    }
    for (int64_t r = 0; count > 0 && r < filters; ++r)
      put(sums + r * width + at - begin, count, add, y + r * y_plane + h * W_out + w);
    at = (h + 1) * pitch;
  }
}

// A band's positions in blocks of up to kWide vectors.
struct Blocks {
  int64_t end, vectors, count;  // positions, and vectors of them
  Blocks(const fops_conv& c, const Layout& l, int64_t rows)
      : end((rows - 1) * l.pitch + out_w(c)), vectors(ceil_div(end, kLanes)), count(ceil_div(vectors, kWide)) {}
  int64_t start(int64_t block) const { return vectors * block / count; }  // in vectors
};

// Where the inputs of a tile begin, and the taps from there.
struct Inputs {
  const float* x;
  const int64_t* taps;
};

// `rows` output rows of the filter blocks [first, last); x is the first position, y the first row's of filter 0. Up to a
// vector behind the last position is read: of a band behind which nothing may be read, the last block has inputs `tail`.
void band(const fops_conv& c, const Products& p, const Layout& l, const float* x, const Inputs* tail, const float* k,
          int64_t rows, int64_t first, int64_t last, bool far, bool add, float* y) {
  const Blocks all(c, l, rows);
  const int64_t y_plane = out_h(c) * out_w(c), blocks = all.count;
  const int64_t filter_blocks = (c.M + kFilters - 1) / kFilters;
  alignas(64) float sums[kTileFloats];
  const auto tile = [&](int64_t block, int64_t f) {
    const int64_t from = all.start(block), wide = all.start(block + 1) - from;
    const int64_t begin = from * kLanes, stop = std::min(begin + wide * kLanes, all.end);
    const Inputs in = tail && block == blocks - 1 ? *tail : Inputs{x + begin, p.taps};
    const int64_t m = c.M * f / filter_blocks, filters = c.M * (f + 1) / filter_blocks - m;
    float* to = y + m * y_plane;
    if (far)
      for (int64_t r = 0; r < filters; ++r)
        for (int64_t v = 0; v < wide; ++v)
          __builtin_prefetch(to + r * y_plane + begin / l.pitch * out_w(c) + begin % l.pitch + v * kLanes, 1);
    const TileSums run = tile_sums_of(filters, wide, std::make_integer_sequence<int, kFilters * kWide>());
    run({in.taps, p.depth, p.part, p.stride}, in.x, k + m * p.stride, sums);
    drop_columns(sums, wide * kLanes, filters, begin, stop, l.pitch, out_w(c), add, to, y_plane);
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

// The taps (c, p, q) of so many channels, as offsets.
void taps_of(int64_t channels, int64_t K, int64_t channel, int64_t down, int64_t right, int64_t* taps) {
  for (int64_t c = 0; c < channels; ++c)
    for (int64_t p = 0; p < K; ++p)
      for (int64_t q = 0; q < K; ++q) *taps++ = c * channel + p * down + q * right;
}

template <typename T>
fops_status convolve(const fops_conv& conv, const T* x, const float* k, float* y) {
  const int64_t H_out = out_h(conv), W_out = out_w(conv), image = conv.C * conv.H * conv.W;
  const int64_t depth = conv.C * conv.K * conv.K, y_plane = H_out * W_out;
  const int threads = threads_for(conv);

  const bool copies = copies_pay(conv);
  const Cut cut = cut_of(conv, copies, threads);
  const int64_t filter_blocks = ceil_div(conv.M, kFilters), channels = ceil_div(conv.C, cut.chunks);
  const bool in_place = !copies && sizeof(T) == sizeof(float);
  const Layout l = layout(conv, copies, in_place, cut.rows);
  // What the last block of a band reads of a channel.
  const int64_t span = (conv.K - 1) * (conv.W + 1) + kWide * kLanes;

  const bool far = conv.B * std::max(image, conv.M * y_plane) * 4 > kFarBytes;
  const int64_t own = (channels * (in_place ? span : l.channel) + 2 * kLanes + 15) / 16 * 16;
  float* const memory = static_cast<float*>(scratch((own * threads + depth * 4) * 4));
  if (!memory) return fail(FOPS_OUT_OF_MEMORY, "out of host memory; use fewer threads");
  int64_t* const taps = reinterpret_cast<int64_t*>(memory + own * threads);
  taps_of(channels, conv.K, l.channel, l.down, l.right, taps);
  int64_t* const tail_taps = taps + depth;
  if (in_place) taps_of(conv.C, conv.K, span, l.down, l.right, tail_taps);

  parallel_for(conv.B * cut.bands * cut.groups, threads, [&](int64_t item, int worker) {
    const int64_t group = item % cut.groups, h = item / cut.groups % cut.bands * cut.rows;
    const int64_t b = item / cut.groups / cut.bands;
    const int64_t count = std::min(cut.rows, H_out - h);
    const int64_t first = filter_blocks * group / cut.groups, last = filter_blocks * (group + 1) / cut.groups;
    float* const mine = memory + worker * own;
    const T* from = x + b * image;
    float* const to = y + b * conv.M * y_plane + h * W_out;
    if (copies) {
      for (int64_t chunk = 0; chunk < cut.chunks; ++chunk) {
        const int64_t begin = conv.C * chunk / cut.chunks, end = conv.C * (chunk + 1) / cut.chunks;
        const fops_conv part = {conv.B, end - begin, conv.H, conv.W, conv.M, conv.K, conv.x_type};
        shift(part, from + begin * conv.H * conv.W + h * conv.W, count + conv.K - 1, mine, l.right);
        const Products products = {taps, part.C * conv.K * conv.K, cut.part, depth};
        band(conv, products, l, mine, nullptr, k + begin * conv.K * conv.K, count, first, last, far, chunk > 0, to);
      }
      return;
    }
    const T* const rows = from + h * conv.W;
    const float* data = mine;
    Inputs tail = {nullptr, tail_taps};
    if (!in_place) {
      const int64_t floats = (count + conv.K - 1) * conv.W;
      for (int64_t c = 0; c < conv.C; ++c) widen(rows + c * conv.H * conv.W, floats, mine + c * l.channel);
    } else {
      data = reinterpret_cast<const float*>(rows);
      if (far) fetch(conv, data, count + conv.K - 1);
      // Less than a vector behind it the data may end: then nothing more may be read.
      if ((conv.B - 1 - b) * image + (H_out - h - count) * conv.W < kLanes) {
        const Blocks blocks(conv, l, count);
        const int64_t begin = blocks.start(blocks.count - 1) * kLanes;
        const int64_t left = std::min(span, (conv.H - h) * conv.W - begin);
        for (int64_t c = 0; c < conv.C; ++c) {
          memcpy(mine + c * span, data + c * conv.H * conv.W + begin, left * sizeof(float));
          memset(mine + c * span + left, 0, (span - left) * sizeof(float));
        }
        tail.x = mine;
      }
    }
    const Products products = {taps, depth, cut.part, depth};
    band(conv, products, l, data, tail.x ? &tail : nullptr, k, count, first, last, far, false, to);
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
