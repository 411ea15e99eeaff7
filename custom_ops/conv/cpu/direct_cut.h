// How direct_simd.cpp divides a convolution into bands of rows and groups of filters; and, if it works on copies of the
// image, into chunks of channels.
//
//   one image, copied     chunk 0         chunk 1         band 0 of chunk 0: y[rows of band 0]  = its sums
//                         channels 0, 1   channels 2, 3   band 0 of chunk 1: y[rows of band 0] += its sums
//   band 0   rows 0 1 2   copies          copies          band 1 ...
//   band 1   rows 3 4 5   copies          copies          A second-level cache holds the copies of one band and chunk.
#pragma once

#include <algorithm>
#include <cstdint>

#include "base/simd.h"
#include "base/summation.h"
#include "conv/cpu/direct_kernel.h"
#include "conv/cpu/inputs.h"
#include "conv/kernel.h"

namespace fops::FOPS_ISA {

// Limits for the bytes of a band's inputs in place: kPointBytes for 1x1 filters, so that the inputs stay in a
// second-level cache, and kBandBytes for larger filters. These use each input so often that a third-level cache is as
// fast.
constexpr int64_t kPointBytes = 256 << 10, kBandBytes = 1 << 20;
constexpr int64_t kCopiesBytes = 512 << 10;  // limit for the bytes of the shifted copies of a band and chunk

// Where the inputs of a band are in memory. Distances are in floats.
struct Layout {
  bool copies;                   // K shifted copies; otherwise the image in place, or a copy of its rows as float32
  int64_t pitch;                 // number of positions from one output row to the next
  int64_t channel, down, right;  // distances to the input of the next channel, of the next p, and of the next q
  int64_t skip;                  // number of inputs between the inputs of two rows of positions
};

// merges_fit: whether kMerges masked loads suffice to load any vector, which may have inputs of several rows.
// pieces_fit: whether output rows can follow one another without dropped columns, because of this or because they are
// whole vectors.
static inline bool merges_fit(const fops_conv& c) { return kMaskedLoads && (kLanes - 2) / out_w(c) < kMerges; }
static inline bool pieces_fit(const fops_conv& c) { return out_w(c) % kLanes == 0 || merges_fit(c); }

// Copying a number takes about as long as this many multiply-adds; computing an output that is dropped takes M * K
// multiply-adds per channel and q.
constexpr int64_t kCopy = 25;

static inline bool copies_pay(const fops_conv& c) {
  return !pieces_fit(c) && c.M * c.K * (c.W - out_w(c)) > kCopy * out_w(c);
}

static inline int64_t pitch_of(const fops_conv& c, bool copies) { return copies || pieces_fit(c) ? out_w(c) : c.W; }

static inline Layout layout(const fops_conv& c, bool copies, bool in_place, int64_t rows) {
  const int64_t pitch = pitch_of(c, copies), plane = (rows + c.K - 1) * out_w(c);
  if (copies) return {true, pitch, c.K * plane, out_w(c), plane, 0};
  return {false, pitch, (in_place ? c.H : rows + c.K - 1) * c.W, c.W, 1, c.W - pitch};
}

// How the work is divided. `chunks` and `part` depend on the layer alone, so that a sum is added up in the same order in
// any batch and with any number of threads.
struct Cut {
  int64_t chunks;       // number of chunks of channels
  int64_t part;         // products per part of a sum (base/summation.h)
  int64_t rows, bands;  // output rows per band; bands per image
  int64_t groups;       // number of groups of filter blocks
};

// Returns the number of chunks of channels if copies are made. With fewer channels per chunk, a band may have more
// rows. A chunk is so small that a band can have at least 16 output rows, and four times as many as the K - 1 rows that
// it shares with the next band. But a chunk has about 100 products per output or more.
static inline int64_t chunks_of(const fops_conv& c) {
  const int64_t height = std::min(out_h(c), std::max<int64_t>(16, 4 * (c.K - 1))) + c.K - 1;
  const int64_t fit = kCopiesBytes / (height * c.K * out_w(c) * 4), least = ceil_div(100, c.K * c.K);
  return ceil_div(c.C, std::max(fit, least));
}

// Returns the number of products per part of a sum if each chunk's products are summed separately.
static inline int64_t part_of_chunks(const fops_conv& c, int64_t chunks) {
  const int64_t depth = c.C * c.K * c.K, chunk = ceil_div(c.C, chunks) * c.K * c.K;
  int64_t part = part_of_sum(depth);
  // The number of additions through which a term may pass: as many as without chunks, or chunks + 2 if that is more.
  const int64_t most = std::max(part + ceil_div(depth, part), chunks + 2);
  part = std::min(part, chunk);
  while (part > 1 && part + ceil_div(chunk, part) + chunks > most) --part;
  return ceil_div(chunk, ceil_div(chunk, part));
}

static inline Cut cut_of(const fops_conv& c, bool copies, int threads) {
  const int64_t blocks = ceil_div(c.M, kFilters), chunks = copies ? chunks_of(c) : 1;
  const int64_t row_bytes = (copies ? ceil_div(c.C, chunks) * c.K * out_w(c) : c.C * c.W) * 4;
  const int64_t bytes = copies ? kCopiesBytes : c.K == 1 ? kPointBytes : kBandBytes;
  const int64_t most = std::clamp<int64_t>(bytes / row_bytes - (c.K - 1), 1, out_h(c));
  const int64_t part = chunks > 1 ? part_of_chunks(c, chunks) : part_of_sum(c.C * c.K * c.K);
  Cut cut = {chunks, part, 0, ceil_div(out_h(c), most), 1};
  // An item is a band of an image, for a group of filter blocks. If there are few images and bands, the number of bands
  // and groups is chosen so that the last thread ends as early as possible. Small items have costs: a tile of fewer vectors
  // loads as many weights as a full tile, each band reads all weights, and each item makes its own copies. The unit of cost
  // is the time for one vector of positions and a block of filters.
  const int64_t fewest = std::min(std::max(cut.bands, ceil_div(threads, c.B * blocks)), out_h(c));
  const int64_t more = threads > 1 && c.B * fewest < 16 * threads ? 8 : 1;
  const int64_t pitch = pitch_of(c, copies);
  double least = 0;
  for (int64_t bands = fewest; bands < fewest + more && bands <= out_h(c); ++bands)
    for (int64_t n = 1; n <= (more > 1 ? 4 : 1); ++n) {
      const int64_t groups = std::clamp<int64_t>(n * threads / (c.B * bands), 1, blocks);
      const int64_t rows = ceil_div(out_h(c), bands), vectors = ceil_div(rows * pitch, kLanes);
      const auto tiles = static_cast<double>((2 * vectors + ceil_div(vectors, kWide)) * ceil_div(blocks, groups));
      const auto copied = static_cast<double>(copies ? kCopy * (rows + c.K - 1) * pitch : 0);
      const double item = tiles / 2 + copied / (kLanes * kFilters * c.K) + 12.0 / (c.C * c.K * c.K);
      const double cost = item * (0.1 + static_cast<double>(ceil_div(c.B * bands * groups, threads))) *
                          (1 + 0.02 * static_cast<double>(bands - fewest));
      if (least == 0 || cost < least) {
        least = cost;
        cut.bands = bands;
        cut.groups = groups;
      }
    }
  cut.rows = ceil_div(out_h(c), cut.bands);
  cut.bands = ceil_div(out_h(c), cut.rows);
  return cut;
}

}  // namespace fops::FOPS_ISA
