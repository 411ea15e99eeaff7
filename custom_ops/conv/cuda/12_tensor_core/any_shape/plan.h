// Any shape on Hopper: how a convolution becomes steps of a matrix product, known to host and device alike.
//
//   y (filters x positions) = weights (filters x depth) * pixels (depth x positions)
//
// A position is a pixel of the image, row after row, the K - 1 columns and rows at its end included: what is computed
// there is not stored. Position i meets, for the tap (p, q), the pixel i + p W + q. So a tap is a distance in shared
// memory, the same for every position, and the pixels need to be staged once, not once a tap.
//
// Where the columns and rows at the end are many (14x14 by 7x7: two of three positions), tasks are made of strips: eight
// output columns and the K - 1 behind them, of as many strips, of an image or of several, as fit side by side.
//
//   staged   | strip 0: 8 + K - 1 pixels | strip 1 | strip 2 |     rows, and K - 1 more below
//   eights   | row 0 of strip 0 | row 0 of 1 | row 0 of 2 | row 1 of 0 | ...   each 8 + K - 1 pixels behind the last one
//
// wgmma takes its columns by eights that lie any distance apart. A tap is a distance there too: p rows of all strips + q.
//
//   slot    8 halves of a staged pixel, 16 bytes: 8 channels; or of the last channels 4, 2 or 1, for 2, 4 or 8
//           neighbouring pixels, so that few channels fill the depth of an instruction with taps
//   unit    a slot at a tap (of several neighbouring taps where the slot holds neighbours): 8 of the depth
//   taps    of few filters the rows of a product have room for: the same pixels meet the filters' weights at a tap, and
//           at others `shift` columns on, in rows of their own; what these rows sum up belongs so many columns further left
//   step    two units, one wgmma: 16 of the depth
//   chunk   the slots that are staged together, one or two, and all steps over them
#pragma once

#include <cuda_runtime.h>

#include <cstdint>

#include "conv/cuda/12_tensor_core/plain.cuh"
#include "conv/cuda/12_tensor_core/tensor_core.h"
#include "conv/cuda/dims.h"

namespace fops {
namespace any_shape {

constexpr int kLargestK = 11, kMostSteps = 128;  // steps of a chunk
constexpr int kTileRows = 64;                    // rows of a wgmma: filters, or halves of 32 filters
constexpr int kTileBytes = kTileRows * 16 * 2;   // of the weights of a step
constexpr int kTileDepth = kTileBytes / 2;       // bytes between the two units of a tile; its rows are 16 bytes apart

// Steps whose sums are added up by the tensor cores before ordinary additions take them over. The tensor cores cut off
// what a sum has no room for, always toward zero. Of 4,000 images of one value each and up to 64 filters likewise, for
// each of 197 layers, the worst lost, in units of 2^-24: 11 in sums of one or two chains of 4 steps, 24 with chains of
// 8, 36 with chains of 12 (34 from 1,024 products on). The bound allows 4 plus the root of the products' number: 11 for
// 49 of them, 24 for 400, 36 for 1,024. Of fewer than 64 all four products of halves are made, and 8 steps keep it.
constexpr int longest_chain(int products) {
  return products >= 1024 ? 12 : products >= 400 || products < kLeastProducts ? 8 : 4;
}

// Of small batches several blocks share an output's depth, so there is one order of adding for all batches: chains one
// after the other, and behind the chains of a segment, some chunks of together so many steps, its small products.
constexpr int kLeastSegment = 10;

constexpr int kMultipliers = 256;  // threads that multiply: two warpgroups

struct Slot {
  int channel, channels;  // the first, and how many a pixel: 8, 4, 2 or 1
  __host__ __device__ int pixels() const { return 8 / channels; }
};

struct Unit {
  Slot slot;
  int in_chunk;  // the slot's number in its chunk
  int p, q;      // the tap, or the first of several; that of the first rows
};

// The slots of an image, and their units in order.
struct Chunks {
  int C, K;
  int full;     // slots of eight channels; the last one may have 5 to 7 of them
  int rest;     // slots behind them, of up to four channels together,
  int narrow;   // `narrow` channels each: 4, 2 or 1
  int a_chunk;  // slots of a chunk; the last one may have fewer
  int taps;     // in rows of their own
  int shift;    // columns between them: neighbours in the widest slot

  __host__ __device__ int slots() const { return full + rest; }
  __host__ __device__ int count() const { return (slots() + a_chunk - 1) / a_chunk; }
  __host__ __device__ Slot slot(int i) const {
    return i < full ? Slot{8 * i, 8} : Slot{8 * full + (i - full) * narrow, narrow};
  }
  // A filter's row in the slot, in units, and where the units begin: shift / pixels of them, and so again behind `taps`
  // shifts. And the units of all its rows.
  __host__ __device__ int row_units(Slot s) const {
    const int a_block = shift / s.pixels(), block = shift * taps, last = (K % block + s.pixels() - 1) / s.pixels();
    return K / block * a_block + (last < a_block ? last : a_block);
  }
  __host__ __device__ int column(Slot s, int unit) const {
    const int a_block = shift / s.pixels();
    return unit / a_block * shift * taps + unit % a_block * s.pixels();
  }
  __host__ __device__ int units(Slot s) const { return K * row_units(s); }
  __host__ __device__ int slots_of(int chunk) const {
    const int left = slots() - chunk * a_chunk;
    return left < a_chunk ? left : a_chunk;
  }
  __host__ __device__ int full_of(int chunk) const {
    const int left = full - chunk * a_chunk;
    return left < 0 ? 0 : left < a_chunk ? left : a_chunk;
  }
  __host__ __device__ int steps_of(int chunk) const {
    const int pairs = full_of(chunk) / 2;
    int single = 0;
    for (int i = 2 * pairs; i < slots_of(chunk); ++i) single += units(slot(chunk * a_chunk + i));
    return pairs * units({0, 8}) + (single + 1) / 2;
  }
  // Unit `half` (0 or 1) of a step; false where the step has one unit only. Two full slots give the same tap of both;
  // the units of other slots follow one another. Either way the second lies behind the first in shared memory.
  __host__ __device__ bool unit_at(int chunk, int step, int half, Unit* u) const {
    const int pairs = full_of(chunk) / 2, a_pair = units({0, 8}), paired = pairs * a_pair;
    int in_chunk = step / a_pair * 2 + half, i = step % a_pair;
    if (step >= paired) {
      in_chunk = 2 * pairs, i = 2 * (step - paired) + half;
      while (i >= units(slot(chunk * a_chunk + in_chunk))) {
        i -= units(slot(chunk * a_chunk + in_chunk));
        if (++in_chunk == slots_of(chunk)) return false;
      }
    }
    const Slot s = slot(chunk * a_chunk + in_chunk);
    *u = {s, in_chunk, i / row_units(s), column(s, i % row_units(s))};
    return true;
  }
};

// Whether an image's planes are such that the copy engine can bring rows of their pixels (raw_rows.cuh). Rows of small
// images are a copy for each image.
inline bool has_rows(const fops_conv& c) { return c.C % 8 == 0 && c.H * c.W % 4 == 0; }
inline bool many_images_a_row(const fops_conv& c) { return c.H * c.W < 512; }

// The slots of C channels, where one to four left over behind the full slots go `narrow` (4, 2 or 1) to a slot, beside
// neighbouring pixels; five to seven take a full slot. False for a `narrow` that leaves half of each slot empty, or that
// makes several slots behind full ones: all chunks but the last are alike.
inline bool chunks_of(int C, int K, int narrow, Chunks* chunks) {
  const int left = C % 8 > 4 ? 0 : C % 8;
  *chunks = {C, K, C / 8 + (C % 8 > 4), (left + narrow - 1) / narrow, narrow, 1, 1, left ? 8 / narrow : 1};
  return left ? (narrow < 2 * left || narrow == 1) && (chunks->rest == 1 || !chunks->full) : narrow == 1;
}

// Whichever takes fewer units: of 3 channels at K = 7, 28 in one slot and 21 in three.
inline Chunks chunks_for(int C, int K) {
  Chunks best = {}, chunks;
  int least = 0;
  for (int narrow = 4; narrow >= 1; narrow /= 2) {
    if (!chunks_of(C, K, narrow, &chunks)) continue;
    const int units = chunks.rest * chunks.units({0, narrow});
    if (!best.C || units < least) best = chunks, least = units;
  }
  return best;
}

// Where a step's units lie among staged entries of 16 bytes, `slot` of them a slot and `width` a row: the first | how
// far behind it the second, << 16. Added to a descriptor's lower half it gives the step's pixels.
inline uint32_t place_of(const Chunks& chunks, int chunk, int step, uint32_t slot, uint32_t width) {
  Unit a = {}, b = {};
  chunks.unit_at(chunk, step, 0, &a);
  const uint32_t from = a.in_chunk * slot + a.p * width + a.q;
  // A unit that is missing has zero weights: it may be the first one's pixels again.
  const bool two = chunks.unit_at(chunk, step, 1, &b);
  return from | (two ? b.in_chunk * slot + b.p * width + b.q - from : 0) << 16;
}

// A unit's first weight, in 16 bits: its channel, counted from the chunk's first, << 8, its row << 4, its column; and no
// unit. The host finds it out: on the device the divisions would take longer than the splitting of eight weights.
constexpr uint16_t kNoUnit = 0xffff;
inline uint16_t origin_of(const Chunks& chunks, int chunk, int step, int half) {
  Unit u;
  if (!chunks.unit_at(chunk, step, half, &u)) return kNoUnit;
  return static_cast<uint16_t>((u.slot.channel - chunks.slot(chunk * chunks.a_chunk).channel) << 8 | u.p << 4 | u.q);
}

// Of the steps of all chunks but the last, and of the last. Read from constant memory, where it comes with the launch.
struct Steps {
  uint32_t places[2][kMostSteps];
  uint16_t origins[2][2 * kMostSteps];
};

// How tasks are made of strips.
struct Strips {
  int together;      // strips of a task, side by side; 0: positions are the images' pixels in order
  int rows;          // output rows of a task
  int width;         // staged pixels of one: 8 + K - 1
  int an_image;      // strips
  int pieces;        // of `rows` rows, an image
  uint32_t inverse_width, inverse_all, inverse_an_image;  // of `width`, of all strips' widths, of `an_image` but for 1
};

// How the work is cut. A task is `positions` positions times the filters of a block.
struct Plan {
  Chunks chunks;
  int chunk_count, first_steps, last_steps;  // chunks, and the steps of all but the last, and of the last
  int steps;         // of all chunks
  int chain;         // steps of a chain, at most
  int segment;       // chunks of a segment
  int parts;         // blocks, a cluster of them, that share a task's segments
  int kept;          // sums that each of them may keep for the others
  int first_group, last_group;  // steps whose weights are brought together, in all chunks but the last, and in the last
  int positions;     // of a task
  int reach;         // columns that a tile computes beyond its positions, for rows of other taps
  int staged;        // pixels staged for them
  uint32_t inverse_staged;
  uint64_t inverse_pixels;  // of an image, times 2^42
  int buffers;       // chunks in shared memory at a time
  int ring;          // groups of weights in shared memory at a time
  int group_bytes;   // of one
  int pieces;        // slots whose pixels are in shared memory as they are in global memory (raw_rows.cuh), or 0
  int raw_row;       // floats of a channel of one
  uint32_t inverse_image;  // of an image's pixels, for numbers below 2^16
  int blocks;        // of filters
  Strips strips;
  bool by_image;     // without strips: whether tasks begin anew with each image; else positions run through the batch
  uint32_t spans;    // pieces of positions an image, or of the batch
  uint32_t tasks;    // pieces times blocks of filters
  float threshold;   // scaled values below it, zero aside, lose bits that the sum may need: see `Flags`
  bool half;         // leaves out the low halves
  bool early;        // a block has one task, of one image: pixels are staged while the weights are packed

  size_t row_bytes() const { return size_t{8} * raw_row * sizeof(float); }  // of a slot's rows
  int64_t buffer_bytes() const { return int64_t{2} * chunks.a_chunk * staged * 16; }  // of a chunk: high halves, low

  // The first chunk of a part; of the part behind the last one, the chunks' number.
  __host__ __device__ int begin(int part) const {
    const int first = part * ((chunk_count + segment - 1) / segment) / parts * segment;
    return first < chunk_count ? first : chunk_count;
  }
};

// What the staging of a chunk found out, each the number of the latest chunk of which it was true, counted from 1.
struct Flags {
  uint32_t low;    // some low half is not zero
  uint32_t beyond; // some value has no good split: see `ImageScale` in plain.cuh
};

// Columns of a wgmma: see `Choice` in launch.h.
constexpr int kMostColumns = 128, kFewColumns = 32;

// What a call makes of weights and images, on the device.
struct Packed {
  float* unscale;      // of every filter: the factor that undoes its scale; 0 if some weight has no good split, which
                       // sends all outputs of its tile's filters down the plain road
  ImageScale* images;  // of every image
  float4* kept;        // [task][part][sum][columns / 8][kMultipliers]
  uint32_t* marks;     // [task][part]: how many sums | 1 << 16 where a value has no good split
  uint8_t* tiles;      // [block][step][tile of the block][high, low][kTileBytes]
};

}  // namespace any_shape
}  // namespace fops
