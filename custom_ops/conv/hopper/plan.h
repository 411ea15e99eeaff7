// A convolution as steps of a matrix product, the same for host and device. Plain C++.
//
//   y (filters x positions) = weights (filters x depth) * pixels (depth x positions)
//
// A position is a pixel of the image; those in the K - 1 last columns and rows are computed and dropped. For tap (p, q)
// position i needs pixel i + p W + q: a tap is a distance in shared memory, so pixels are staged once, not once per
// tap.
//
//   slot    8 halves of a staged pixel, 16 bytes: 8 channels, or 4, 2 or 1 of the last ones at neighbouring pixels
//   unit    a slot at a tap: 8 of the depth
//   step    two units, one wgmma: 16 of the depth
//   chunk   the slots that are staged together, and all steps over them
#pragma once

#include <cstddef>
#include <cstdint>

#include "conv/kernel.h"
#include "gpu/host_device.h"

namespace fops {

// Sums of at least so many products keep the bound, 4 + sqrt(C K K) units of 2^-24 (docs/precision.md), when the
// product of two low halves is left out, which may cost 9 units. 49 is not enough: sums of 52 and 60 equal terms
// exceeded the bound by 5%.
constexpr int kMinProducts = 64;

namespace hopper {

constexpr int kMaxK = 11, kMaxSteps = 128;       // steps of a chunk
constexpr int kTileRows = 64;                    // rows of a wgmma: filters, or halves of 32 filters
constexpr int kTileBytes = kTileRows * 16 * 2;   // of the weights of a step
constexpr int kTileDepth = kTileBytes / 2;       // bytes between the two units of a tile; its rows are 16 bytes apart

// Steps that the tensor cores add up before the sum moves to ordinary float32 additions. The tensor cores truncate
// toward zero. The most that was lost, with images and filters of one value each on 197 layers, was, in units of 2^-24:
// 11 in sums of one or two chains of 4 steps, 24 with chains of 8, 36 with chains of 12 (34 from 1,024 products on).
// The bound allows 4 plus the root of the products' number: 11 for 49 of them, 24 for 400, 36 for 1,024. Of one large term
// and many small ones chains of 8 lost up to 1.08 times the bound of 48 products.
constexpr int max_chain_steps(int products) {
  return products >= 1024 ? 12 : products >= 400 ? 8 : 4;
}

// In small batches several blocks share an output's depth. All batches add in the same order: the chains of a segment
// one after the other, then its products with a low half. A segment is as many chunks as have kMinSegment steps.
constexpr int kMinSegment = 10;

constexpr int kConsumerThreads = 256;  // two warpgroups
// Chunks of pixels, and groups of weights, in shared memory at a time.
constexpr int kMaxBuffers = 4, kMaxStages = 8;
// Slots whose pixel rows TMA keeps in shared memory: this many, or two.
constexpr int kMaxPieces = 4;
constexpr int kLot = 64;                                             // entries of a slot that a warp splits at a time
constexpr int kMaxParts = 8;                                         // blocks of a cluster that share a task
constexpr int kOutgoingBytes = kConsumerThreads / 32 * 16 * 68 * 4;  // a warp's 16 filters by 64 outputs, 4 banks apart
constexpr int kSharedBytes = 4400;                                   // the kernel's static shared memory

struct Slot {
  int channel, channels;  // the first one, and their number: 8, 4, 2 or 1
  FOPS_HOST_DEVICE int pixels() const { return 8 / channels; }
};

struct Unit {
  Slot slot;
  int in_chunk;  // the slot's number in its chunk
  int p, q;      // the tap, or the first of several; that of the first rows
};

// The slots of an image, and their units in order.
struct Chunks {
  int C, K;
  int full;       // slots of eight channels; the last one may have 5 to 7 of them
  int rest;       // slots behind them, of up to four channels together,
  int narrow;     // `narrow` channels each: 4, 2 or 1
  int per_chunk;  // slots of a chunk; the last one may have fewer
  int taps;       // that have rows of their own in a tile, for few filters: the same pixels serve them
  int shift;      // columns between them: neighbours in the widest slot

  FOPS_HOST_DEVICE int slots() const { return full + rest; }
  FOPS_HOST_DEVICE int count() const { return (slots() + per_chunk - 1) / per_chunk; }
  FOPS_HOST_DEVICE Slot slot(int i) const {
    return i < full ? Slot{8 * i, 8} : Slot{8 * full + (i - full) * narrow, narrow};
  }
  // The units of a filter's row in a slot, the column where a unit begins, and the units of all rows. Units cover
  // `shift` columns, and again `shift` columns after `taps` shifts.
  FOPS_HOST_DEVICE int row_units(Slot s) const {
    const int per_block = shift / s.pixels(), block = shift * taps, last = (K % block + s.pixels() - 1) / s.pixels();
    return K / block * per_block + (last < per_block ? last : per_block);
  }
  FOPS_HOST_DEVICE int column(Slot s, int unit) const {
    const int per_block = shift / s.pixels();
    return unit / per_block * shift * taps + unit % per_block * s.pixels();
  }
  FOPS_HOST_DEVICE int units(Slot s) const { return K * row_units(s); }
  FOPS_HOST_DEVICE int slots_of(int chunk) const {
    const int left = slots() - chunk * per_chunk;
    return left < per_chunk ? left : per_chunk;
  }
  FOPS_HOST_DEVICE int full_of(int chunk) const {
    const int left = full - chunk * per_chunk;
    return left < 0 ? 0 : left < per_chunk ? left : per_chunk;
  }
  FOPS_HOST_DEVICE int steps_of(int chunk) const {
    const int pairs = full_of(chunk) / 2;
    int single = 0;
    for (int i = 2 * pairs; i < slots_of(chunk); ++i) single += units(slot(chunk * per_chunk + i));
    return pairs * units({0, 8}) + (single + 1) / 2;
  }
  // Unit `half` (0 or 1) of a step; false where the step has one unit only. Two full slots give the same tap of both;
  // the units of other slots follow one another. Either way the second lies behind the first in shared memory.
  FOPS_HOST_DEVICE bool unit_at(int chunk, int step, int half, Unit* u) const {
    const int pairs = full_of(chunk) / 2, per_pair = units({0, 8}), paired = pairs * per_pair;
    int in_chunk = step / per_pair * 2 + half, i = step % per_pair;
    if (step >= paired) {
      in_chunk = 2 * pairs, i = 2 * (step - paired) + half;
      while (i >= units(slot(chunk * per_chunk + in_chunk))) {
        i -= units(slot(chunk * per_chunk + in_chunk));
        if (++in_chunk == slots_of(chunk)) return false;
      }
    }
    const Slot s = slot(chunk * per_chunk + in_chunk);
    *u = {s, in_chunk, i / row_units(s), column(s, i % row_units(s))};
    return true;
  }
};

// Whether an image's planes are such that TMA can load rows of their pixels (raw_rows.cuh). Rows of small
// images are a copy for each image.
inline bool has_rows(const fops_conv& c) { return c.C % 8 == 0 && c.H * c.W % 4 == 0; }
inline bool many_images_per_row(const fops_conv& c) { return c.H * c.W < 512; }

// The slots of C channels, where one to four left over behind the full slots go `narrow` (4, 2 or 1) to a slot, beside
// neighbouring pixels; five to seven take a full slot. False for a `narrow` that leaves half of each slot empty, or
// that makes several slots behind full ones: all chunks but the last are alike.
inline bool chunks_of(int C, int K, int narrow, Chunks* chunks) {
  const int left = C % 8 > 4 ? 0 : C % 8;
  *chunks = {C, K, C / 8 + (C % 8 > 4), (left + narrow - 1) / narrow, narrow, 1, 1, left ? 8 / narrow : 1};
  return left ? (narrow < 2 * left || narrow == 1) && (chunks->rest == 1 || !chunks->full) : narrow == 1;
}

// The slots that need fewest units: 3 channels at K = 7 take 28 in one slot and 21 in three.
inline Chunks chunks_for(int C, int K) {
  Chunks best = {}, chunks;
  int minimum = 0;
  for (int narrow = 4; narrow >= 1; narrow /= 2) {
    if (!chunks_of(C, K, narrow, &chunks)) continue;
    const int units = chunks.rest * chunks.units({0, narrow});
    if (!best.C || units < minimum) best = chunks, minimum = units;
  }
  return best;
}

// Where a step's units lie among staged entries of 16 bytes, `slot` entries per slot and `width` per row: the first
// unit's entry | the distance to the second << 16. Added to a descriptor's lower half it gives the step's pixels.
inline uint32_t place_of(const Chunks& chunks, int chunk, int step, uint32_t slot, uint32_t width) {
  Unit a = {}, b = {};
  chunks.unit_at(chunk, step, 0, &a);
  const uint32_t from = a.in_chunk * slot + a.p * width + a.q;
  // A unit that is missing has zero weights: it may be the first one's pixels again.
  const bool two = chunks.unit_at(chunk, step, 1, &b);
  return from | (two ? b.in_chunk * slot + b.p * width + b.q - from : 0) << 16;
}

// A unit's first weight, in 16 bits: its channel in the chunk << 8 | its row << 4 | its column; or kNoUnit. Computed on
// the host: the divisions would take the device longer than splitting eight weights.
constexpr uint16_t kNoUnit = 0xffff;
inline uint16_t origin_of(const Chunks& chunks, int chunk, int step, int half) {
  Unit u;
  if (!chunks.unit_at(chunk, step, half, &u)) return kNoUnit;
  return static_cast<uint16_t>((u.slot.channel - chunks.slot(chunk * chunks.per_chunk).channel) << 8 | u.p << 4 | u.q);
}

// For the steps of all chunks but the last, and for those of the last. Read from constant memory.
struct Steps {
  uint32_t places[2][kMaxSteps];
  uint16_t origins[2][2 * kMaxSteps];
};

// Where the dropped columns and rows are many (14x14 by 7x7: two of three positions), tasks are made of strips: eight
// output columns and the K - 1 behind them, of as many strips, of one image or of several, as fit side by side.
//
//   staged   | strip 0: 8 + K - 1 pixels | strip 1 | strip 2 |     rows, and K - 1 more below
//   eights   | row 0 of strip 0 | row 0 of 1 | row 0 of 2 | row 1 of 0 | ...   8 + K - 1 pixels apart
//
// wgmma takes its columns in eights any distance apart. A tap is a distance here too: p rows of all strips + q.
struct Strips {
  int together;      // strips of a task, side by side; 0: positions are the images' pixels in order
  int rows;          // output rows of a task
  int width;         // staged pixels of one: 8 + K - 1
  int per_image;     // strips
  int pieces;        // of `rows` rows, per image
  // Of `width`, of all strips' widths, of `per_image`, unless it is 1.
  uint32_t inverse_width, inverse_all, inverse_per_image;
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
  int first_group, last_group;  // steps whose weights are loaded together, in all chunks but the last, and in the last
  int positions;     // of a task
  int reach;         // columns that a tile computes beyond its positions, for rows of other taps
  int staged;        // pixels staged for them
  uint32_t inverse_staged;
  uint64_t inverse_pixels;  // of an image, times 2^42
  int buffers;              // chunks in shared memory at a time
  int stages;               // groups of weights in shared memory at a time
  int group_bytes;          // of one
  int pieces;               // slots whose pixels are in shared memory as they are in global memory (raw_rows.cuh), or 0
  int raw_row;              // floats of a channel of one
  uint32_t inverse_image;   // of an image's pixels, for numbers below 2^16
  int blocks;               // of filters
  Strips strips;
  bool by_image;     // without strips: whether tasks begin again with each image; else positions run through the batch
  uint32_t spans;    // pieces of positions per image, or of the batch
  uint32_t tasks;    // pieces times blocks of filters
  float threshold;   // scaled values below it, zero aside, are unsplittable: see `ImageScale`
  bool half;         // leaves out the low halves
  bool early;        // a block has one task, of one image: pixels are staged while the weights are packed

  size_t row_bytes() const { return size_t{8} * raw_row * sizeof(float); }              // of a slot's rows
  int64_t buffer_bytes() const { return int64_t{2} * chunks.per_chunk * staged * 16; }  // of a chunk: high halves, low

  // The first chunk of a part; of the part behind the last one, the chunks' number.
  FOPS_HOST_DEVICE int begin(int part) const {
    const int first = part * ((chunk_count + segment - 1) / segment) / parts * segment;
    return first < chunk_count ? first : chunk_count;
  }
};

// Columns of a wgmma: see `Choice` in choose.h.
constexpr int kMaxColumns = 128, kFewColumns = 32;

}  // namespace hopper
}  // namespace fops
