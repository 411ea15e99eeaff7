// Convolution of an image in place: a tile of filters x positions in registers, over all taps (c, p, q).
//
//   positions of all rows follow one another, so that a tap is one  a b c d e      tap (0, 0)  a b c f g h k l m
//   offset for all of them. After the last output of a row (c), a   f g h i j      tap (0, 1)  b c d g h i l m n
//   masked load takes the inputs of the next row (direct_kernel.h). k l m n o      tap (1, 0)  f g h k l m ...
//
// Costs: without masked loads, it also computes columns that belong to no output and drops them, so that the arithmetic
// grows by the factor W / W_out. Where that costs more than K copies of the image, it uses the copies of shifted_simd.cpp.
// Copies of many channels are made one chunk of channels at a time (direct_cut.h), and each chunk adds its sums to the
// outputs.
// Gains: elsewhere, it makes no copies.
#include "base/scratch.h"
#include "base/status.h"
#include "base/thread_pool.h"
#include "conv/cpu/direct_cut.h"
#include "conv/cpu/direct_kernel.h"
#include "conv/cpu/inputs.h"
#include "conv/cpu/kernels.h"
#include "conv/cpu/shifted_kernel.h"

namespace fops::FOPS_ISA {
namespace {

void put(const float* from, int64_t count, bool add, float* to) {
  if (add)
    for (int64_t i = 0; i < count; ++i) to[i] += from[i];
  else
    memcpy(to, from, count * sizeof(float));
}

// Stores positions [begin, end) of a tile's sums in y, or with `add` adds them to y. The sums of the `filters` filters are
// `width` floats apart. Positions are in rows of `pitch`, of which the first W_out are outputs; the others are dropped.
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

int64_t positions(const fops_conv& c, int64_t pitch, int64_t rows) { return (rows - 1) * pitch + out_w(c); }

// Whether the blocks of `end` positions read no inputs past the last position: if the positions are whole vectors, or more
// than one block. In the latter case the last block begins earlier, and computes some outputs again.
bool ends_full(int64_t end) { return end > kWide * kLanes || end % kLanes == 0; }

// Writes the blocks of a band of `rows` output rows to `to`, and returns their number. Most blocks have equal size.
int64_t blocks_of(const fops_conv& c, const Layout& l, int64_t rows, Block* to) {
  const int64_t end = positions(c, l.pitch, rows), vectors = ceil_div(end, kLanes), count = ceil_div(vectors, kWide);
  int most = 0;
  for (int64_t i = 0, first = 0, wide; i < count; ++i, first += wide) {
    wide = std::min<int64_t>(kWide, ceil_div(vectors - first, std::min<int64_t>(2, count - i)));
    Block& b = to[i];
    const bool earlier = !l.copies && ends_full(end);
    const int64_t width = wide * kLanes, begin = earlier ? std::min(first * kLanes, end - width) : first * kLanes;
    b = {begin, std::min(width, end - begin), {}, {}, static_cast<int>(wide), 0};
    for (int64_t v = 0; v < wide; ++v) {
      const int64_t at = b.begin + v * kLanes, valid = std::min<int64_t>(kLanes, end - at);
      int64_t next = l.pitch - at % l.pitch;
      b.offsets[v] = at + at / l.pitch * l.skip;
      for (int g = 0; g < kMerges; ++g, next += l.pitch) {
        const bool piece = l.skip > 0 && next < valid;
        b.bounds[g][v] = piece ? static_cast<int>(next) : kLanes;
        if (piece) b.merges = std::max(b.merges, g + 1);
      }
    }
    most = std::max(most, b.merges);
  }
  // Gives all blocks the same kind if there are many filters: a masked load of no lanes costs less than another call of
  // tile_sums.
  if (c.M > kFilters / 2 && most == 1)
    for (int64_t i = 0; i < count; ++i) to[i].merges = 1;
  return count;
}

// Computes the outputs of filter blocks [first, last) for a band's `blocks` blocks of positions, `all`; y points at the
// band's first output of filter 0.
void band(const fops_conv& c, const Products& p, const Layout& l, const float* x, const float* k, const Block* all,
          int64_t blocks, int64_t first, int64_t last, bool far, bool add, float* y) {
  const int64_t y_plane = out_h(c) * out_w(c), filter_blocks = ceil_div(c.M, kFilters);
  const auto alike = [](const Block& a, const Block& b) { return a.vectors == b.vectors && a.merges == b.merges; };
  alignas(64) float sums[kTileFloats];
  // Filters are the outer loop, so that outputs are written in order, and the weights of a block of filters are used for
  // the whole band.
  for (int64_t f = first; f < last; ++f) {
    const int64_t m = c.M * f / filter_blocks, filters = c.M * (f + 1) / filter_blocks - m;
    const float* weights = k + m * p.stride;
    float* to = y + m * y_plane;
    for (int64_t i = 0, next; i < blocks; i = next) {
      const Block& b = all[i];
      const int64_t width = b.vectors * kLanes;
      const TileSums run = tile_sums_of(filters, b.vectors, b.merges);
      next = i + 1;
      if (l.pitch == out_w(c) && b.count == width) {
        while (next < blocks && all[next].count == width && alike(all[next], b)) ++next;
        run(p, &b, next - i, x, weights, {to, 0, y_plane, add, far});
        continue;
      }
      run(p, &b, 1, x, weights, {sums, b.begin, width, false, false});
      drop_columns(sums, width, filters, b.begin, b.begin + b.count, l.pitch, out_w(c), add, to, y_plane);
    }
  }
}

template <typename T>
fops_status convolve(const fops_conv& conv, const T* x, const float* k, float* y) {
  const int64_t H_out = out_h(conv), W_out = out_w(conv), image = conv.C * conv.H * conv.W;
  const int64_t depth = conv.C * conv.K * conv.K, y_plane = H_out * W_out;
  const int threads = threads_for(conv);

  const bool copies = copies_pay(conv);
  const Cut cut = cut_of(conv, copies, threads);
  const int64_t filter_blocks = ceil_div(conv.M, kFilters), channels = ceil_div(conv.C, cut.chunks);
  const int64_t rest = H_out - (cut.bands - 1) * cut.rows;  // number of output rows of the last band
  const int64_t pitch = pitch_of(conv, copies);
  const bool in_place = !copies && sizeof(T) == sizeof(float) && ends_full(positions(conv, pitch, cut.rows)) &&
                        ends_full(positions(conv, pitch, rest));
  const Layout l = layout(conv, copies, in_place, cut.rows);
  const bool far = conv.B * std::max(image, conv.M * y_plane) * 4 > kFarBytes;
  const int64_t own = in_place ? 0 : (channels * l.channel + kLanes + kMerges * l.skip + 15) / 16 * 16;
  const int64_t blocks = ceil_div(cut.rows * l.pitch, kWide * kLanes);
  const int64_t bytes = (own * threads + depth * 2) * 4 + 2 * blocks * static_cast<int64_t>(sizeof(Block));
  float* const memory = static_cast<float*>(scratch(bytes));
  if (!memory) return fail(FOPS_OUT_OF_MEMORY, "out of host memory; use fewer threads");
  int64_t* const taps = reinterpret_cast<int64_t*>(memory + own * threads);
  taps_of(channels, conv.K, l.channel, l.down, l.right, taps);
  Block* const full = reinterpret_cast<Block*>(taps + depth);
  Block* const ends = rest == cut.rows ? full : full + blocks;  // blocks of the last band
  const int64_t full_blocks = blocks_of(conv, l, cut.rows, full);
  const int64_t end_blocks = ends == full ? full_blocks : blocks_of(conv, l, rest, ends);

  parallel_for(conv.B * cut.bands * cut.groups, threads, [&](int64_t item, int worker) {
    const int64_t group = item % cut.groups, h = item / cut.groups % cut.bands * cut.rows;
    const int64_t b = item / cut.groups / cut.bands;
    const bool end_band = h + cut.rows >= H_out;
    const int64_t count = end_band ? rest : cut.rows, parts = end_band ? end_blocks : full_blocks;
    const Block* const all = end_band ? ends : full;
    const int64_t first = filter_blocks * group / cut.groups, last = filter_blocks * (group + 1) / cut.groups;
    float* const mine = memory + worker * own;
    const T* from = x + b * image;
    float* const to = y + b * conv.M * y_plane + h * W_out;
    if (copies) {
      for (int64_t chunk = 0; chunk < cut.chunks; ++chunk) {
        const int64_t begin = conv.C * chunk / cut.chunks, end = conv.C * (chunk + 1) / cut.chunks;
        const fops_conv part = {conv.B, end - begin, conv.H, conv.W, conv.M, conv.K, conv.x_type};
        shift(part, from + begin * conv.H * conv.W + h * conv.W, count + conv.K - 1, mine, l.right);
        const Products products = {taps, part.C * conv.K * conv.K, cut.part, depth, 0};
        band(conv, products, l, mine, k + begin * conv.K * conv.K, all, parts, first, last, far, chunk > 0, to);
      }
      return;
    }
    const T* const rows = from + h * conv.W;
    const float* data = mine;
    if (!in_place) {
      const int64_t floats = (count + conv.K - 1) * conv.W;
      for (int64_t c = 0; c < conv.C; ++c) widen(rows + c * conv.H * conv.W, floats, mine + c * l.channel);
    } else {
      data = reinterpret_cast<const float*>(rows);
      if (far) fetch(conv, data, count + conv.K - 1);
    }
    const Products products = {taps, depth, cut.part, depth, l.skip};
    band(conv, products, l, data, k, all, parts, first, last, far, false, to);
  });
  return FOPS_OK;
}

}  // namespace

bool direct_merges(const fops_conv& conv) { return merges_fit(conv); }

fops_status conv_direct(const fops_conv& conv, const void* x, const float* k, float* y, void*) {
  return with_input(conv, x, [&](auto* typed) { return convolve(conv, typed, k, y); });
}

}  // namespace fops::FOPS_ISA
