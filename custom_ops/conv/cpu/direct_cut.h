// How direct_simd.cpp divides a convolution: the image where it lies or copies of it; chunks of channels, bands of
// rows, groups of filters.
//
//   one image, copied     chunk 0         chunk 1         band 0 of chunk 0: y[rows of band 0]  = its sums
//                         channels 0, 1   channels 2, 3   band 0 of chunk 1: y[rows of band 0] += its sums
//   band 0   rows 0 1 2   copies          copies          band 1 ...
//   band 1   rows 3 4 5   copies          copies          One chunk's copies of a band fit a second-level cache.
#pragma once

#include <algorithm>
#include <cstdint>

#include "base/simd.h"
#include "base/summation.h"
#include "conv/cpu/direct_kernel.h"
#include "conv/kernel.h"

namespace fops {
namespace FOPS_ISA {

constexpr int64_t kBandBytes = 256 << 10;    // of a band's inputs, in a second-level cache
constexpr int64_t kCopiesBytes = 512 << 10;  // and of its copies, which are read one after another

struct Layout {
  bool copies;             // K shifted ones, else the image where it lies or as it is widened from pixels
  int64_t pitch;           // positions from one output row to the next
  int64_t channel, down, right;  // and to the next channel, p and q
};

// A copy costs about as much as so many multiply-adds, and a dropped column M K of them for each channel and q. By two
// Zen 4 cores it is between 24 (one image, 128 to 128 channels, 5x5, on 112x112: 47.0 ms in place, 52.2 copied) and 27
// (100 images, 32 to 32, 5x5, on 28x28: 17.0 and 15.0).
constexpr int64_t kCopy = 25;

static inline bool copies_pay(const fops_conv& c) {
  return c.M * c.K * (c.W - out_w(c)) > kCopy * out_w(c);
}

static inline Layout layout(const fops_conv& c, bool copies, bool in_place, int64_t rows) {
  if (!copies) return {false, c.W, (in_place ? c.H : rows + c.K - 1) * c.W, c.W, 1};
  const int64_t plane = (rows + c.K - 1) * out_w(c);
  return {true, out_w(c), c.K * plane, out_w(c), plane};
}

// How an image is cut. Chunks and parts follow from the layer alone: a sum is added up in the same order in any batch
// and by any number of threads.
struct Cut {
  int64_t chunks;       // of channels
  int64_t part;         // products that are summed by themselves, see base/summation.h
  int64_t rows, bands;  // output rows a band
  int64_t groups;       // of filter blocks
};

static inline int64_t ceil_div(int64_t a, int64_t b) { return (a + b - 1) / b; }

// Chunks of the channels of copies. A chunk leaves room for a band four times as high as what it shares with the next
// band: with all channels, a band of 128 to 32, 7x7, on 28x28 was one row, which copied seven (100 images: 170 ms in
// place of 98). And it gives a tile 100 products or more.
static inline int64_t chunks_of(const fops_conv& c) {
  const int64_t height = std::min(out_h(c), std::max<int64_t>(16, 4 * (c.K - 1))) + c.K - 1;
  const int64_t fit = kCopiesBytes / (height * c.K * out_w(c) * 4), least = ceil_div(100, c.K * c.K);
  return ceil_div(c.C, std::max(fit, least));
}

// Products a part, where each chunk has a sum of its own.
static inline int64_t part_of_chunks(const fops_conv& c, int64_t chunks) {
  const int64_t depth = c.C * c.K * c.K, chunk = ceil_div(c.C, chunks) * c.K * c.K;
  int64_t part = part_of_sum(depth);
  // A term passes through no more additions than without chunks.
  const int64_t most = std::max(part + ceil_div(depth, part), chunks + 2);
  part = std::min(part, chunk);
  while (part > 1 && part + ceil_div(chunk, part) + chunks > most) --part;
  return ceil_div(chunk, ceil_div(chunk, part));
}

static inline Cut cut_of(const fops_conv& c, bool copies, int threads) {
  const int64_t blocks = ceil_div(c.M, kFilters), chunks = copies ? chunks_of(c) : 1;
  const int64_t row_bytes = (copies ? ceil_div(c.C, chunks) * c.K * out_w(c) : c.C * c.W) * 4;
  const int64_t most = std::clamp<int64_t>((copies ? kCopiesBytes : kBandBytes) / row_bytes - (c.K - 1), 1, out_h(c));
  const int64_t part = chunks > 1 ? part_of_chunks(c, chunks) : part_of_sum(c.C * c.K * c.K);
  Cut cut = {chunks, part, 0, ceil_div(out_h(c), most), 1};
  // Items are images, bands of rows, groups of filter blocks: two a thread, so that all end at about the same time. But
  // of copies more items are more of them.
  const int64_t wanted = threads == 1 ? 1 : c.B == 1 && copies ? threads : ceil_div(2 * threads, c.B);
  if (!copies) {  // groups cost nothing
    cut.bands = std::max(cut.bands, std::min(ceil_div(wanted, blocks), out_h(c)));
    cut.groups = std::min(blocks, ceil_div(wanted, cut.bands));
  } else {
    // Bands copy the rows that they share, and the last vector of each is seldom full; each group copies all.
    double least = 0;
    int64_t shared = 0;
    for (int64_t bands = cut.bands, first = bands; bands <= std::min(std::max(first, wanted), out_h(c)); ++bands) {
      const int64_t groups = std::min(blocks, ceil_div(wanted, bands)), items = std::min(bands * groups, wanted);
      const int64_t lanes = bands * ceil_div(ceil_div(out_h(c), bands) * out_w(c), kLanes) * kLanes;
      const double copied = static_cast<double>(groups * (out_h(c) + bands * (c.K - 1)) * out_w(c));
      const double cost = kCopy * copied + static_cast<double>(c.M * c.K * lanes);
      if (items > shared || (items == shared && cost < least)) {
        shared = items;
        least = cost;
        cut.bands = bands;
        cut.groups = groups;
      }
    }
  }
  cut.rows = ceil_div(out_h(c), cut.bands);
  cut.bands = ceil_div(out_h(c), cut.rows);
  return cut;
}

}  // namespace FOPS_ISA
}  // namespace fops
