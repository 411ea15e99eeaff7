// A convolution as steps of a matrix product, the same for host and device. Plain C++.
//
//   y (filters x positions) = weights (filters x depth) * pixels (depth x positions)
//
// A position is a pixel of the image; those in the K - 1 last columns and rows are computed and dropped. For tap (p, q)
// position i needs pixel i + p W + q. A tap is thus a distance in shared memory, and each pixel is staged once, not
// once per tap.
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

// Minimum number of products for which a sum may leave out the product of two low halves and still keep the bound, 4 +
// sqrt(C K K) units of 2^-24 (docs/precision.md). Leaving it out may cost 9 units. 49 products are not enough: sums of
// 52 and 60 equal terms exceeded the bound by 5%.
constexpr int kMinProducts = 64;

namespace hopper {

constexpr int kMaxK = 11, kMaxSteps = 128;       // steps of a chunk
constexpr int kTileRows = 64;                    // rows of a wgmma: filters, or halves of 32 filters
constexpr int kTileBytes = kTileRows * 16 * 2;   // bytes of a tile's weights in a step
constexpr int kTileDepth = kTileBytes / 2;       // bytes between the two units of a tile; its rows are 16 bytes apart

// Steps that the tensor cores add up before the sum moves to ordinary float32 additions. The tensor cores truncate
// toward zero. The largest losses on 197 layers, with images and filters of one value each, in units of 2^-24: 11 in
// sums of one or two chains of 4 steps, 24 with chains of 8, 36 with chains of 12 (34 from 1,024 products on). The
// bound allows 4 plus the square root of the number of products: 11 for 49 of them, 24 for 400, 36 for 1,024. With one
// large term and many small ones, chains of 8 lost up to 1.08 times the bound for 48 products.
constexpr int max_chain_steps(int products) {
  return products >= 1024 ? 12 : products >= 400 ? 8 : 4;
}

// In small batches several blocks share an output's depth. All batches add in the same order: the chains of a segment
// one after the other, then the segment's products with a low half. A segment is the fewest chunks that have
// kMinSegment steps.
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
  int channel, channels;  // first channel, and number of channels: 8, 4, 2 or 1
  FOPS_HOST_DEVICE int pixels() const { return 8 / channels; }
};

struct Unit {
  Slot slot;
  int in_chunk;  // the slot's number in its chunk
  int p, q;      // the tap, or the first of several taps: the one of the tile's first rows
};

// The slots of an image, and their units in order.
struct Chunks {
  int C, K;
  int full;       // slots of eight channels; the last one may have 5 to 7 of them
  int rest;       // slots after them, for up to four channels in all,
  int narrow;     // `narrow` channels each: 4, 2 or 1
  int per_chunk;  // slots of a chunk; the last one may have fewer
  int taps;       // taps with their own rows in a tile, for few filters; they share pixels
  int shift;      // columns between these taps: neighbouring pixels in the widest slot

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
  // Unit `half` (0 or 1) of a step; false where the step has one unit only. Of two full slots, both units have the same
  // tap; the units of other slots follow one another. Either way the second unit comes after the first in shared
  // memory.
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

// Whether TMA can load rows of pixels from an image's planes (raw_rows.cuh). Rows of small
// images take one copy per image.
inline bool has_rows(const fops_conv& c) { return c.C % 8 == 0 && c.H * c.W % 4 == 0; }
inline bool many_images_per_row(const fops_conv& c) { return c.H * c.W < 512; }

// The slots of C channels. One to four channels left over after the full slots go `narrow` (4, 2 or 1) to a slot,
// together with neighbouring pixels; five to seven take a full slot. False for a `narrow` that leaves half of each slot
// empty, or that needs several slots after full ones: all chunks except the last must have the same layout.
inline bool chunks_of(int C, int K, int narrow, Chunks* chunks) {
  const int left = C % 8 > 4 ? 0 : C % 8;
  *chunks = {C, K, C / 8 + (C % 8 > 4), (left + narrow - 1) / narrow, narrow, 1, 1, left ? 8 / narrow : 1};
  return left ? (narrow < 2 * left || narrow == 1) && (chunks->rest == 1 || !chunks->full) : narrow == 1;
}

// The slots that need the fewest units: 3 channels at K = 7 take 28 in one slot and 21 in three.
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

// Offsets of a step's units among staged entries of 16 bytes, `slot` entries per slot and `width` per row: the first
// unit's entry | the distance to the second << 16. Added to a descriptor's lower half it gives the step's pixels.
inline uint32_t place_of(const Chunks& chunks, int chunk, int step, uint32_t slot, uint32_t width) {
  Unit a = {}, b = {};
  chunks.unit_at(chunk, step, 0, &a);
  const uint32_t from = a.in_chunk * slot + a.p * width + a.q;
  // A missing unit has zero weights, so it may read the first unit's pixels again.
  const bool two = chunks.unit_at(chunk, step, 1, &b);
  return from | (two ? b.in_chunk * slot + b.p * width + b.q - from : 0) << 16;
}

// A unit's first weight, in 16 bits: its channel in the chunk << 8 | its row << 4 | its column; or kNoUnit. Computed on
// the host: on the device the divisions would take longer than splitting eight weights.
constexpr uint16_t kNoUnit = 0xffff;
inline uint16_t origin_of(const Chunks& chunks, int chunk, int step, int half) {
  Unit u;
  if (!chunks.unit_at(chunk, step, half, &u)) return kNoUnit;
  return static_cast<uint16_t>((u.slot.channel - chunks.slot(chunk * chunks.per_chunk).channel) << 8 | u.p << 4 | u.q);
}

// Index 0: steps of all chunks except the last; index 1: steps of the last. Read from constant memory.
struct Steps {
  uint32_t places[2][kMaxSteps];
  uint16_t origins[2][2 * kMaxSteps];
};

// Where many columns and rows are dropped (14x14 by 7x7: two of three positions), tasks are made of strips. A strip is
// eight output columns and the K - 1 after them. A task has as many strips, of one image or several, as fit side by
// side.
//
//   staged   | strip 0: 8 + K - 1 pixels | strip 1 | strip 2 |     rows, and K - 1 more below
//   eights   | row 0 of strip 0 | row 0 of 1 | row 0 of 2 | row 1 of 0 | ...   8 + K - 1 pixels apart
//
// wgmma takes its columns in groups of eight, any distance apart. A tap is a distance here too: p rows of all strips +
// q.
struct Strips {
  int together;      // strips of a task, side by side; 0: positions are the images' pixels in order
  int rows;          // output rows of a task
  int width;         // staged pixels per row of a strip: 8 + K - 1
  int per_image;     // strips per image
  int pieces;        // pieces of `rows` rows per image
  // Inverses of `width`, of all strips' widths, and of `per_image` unless it is 1.
  uint32_t inverse_width, inverse_all, inverse_per_image;
};

// How the work is cut. A task is `positions` positions times the filters of a block.
struct Plan {
  Chunks chunks;
  int chunk_count, first_steps, last_steps;  // chunks; steps of each chunk but the last; steps of the last
  int steps;         // steps in all chunks
  int chain;         // maximum steps per chain
  int segment;       // chunks per segment
  int parts;         // blocks of a cluster, which share a task's segments
  int kept;          // maximum number of sums that each of them keeps for the others
  int first_group, last_group;  // steps whose weights are loaded together: chunks but the last; last chunk
  int positions;     // positions per task
  int reach;         // columns that a tile computes beyond its positions, for rows of other taps
  int staged;        // pixels staged for them
  uint32_t inverse_staged;
  uint64_t inverse_pixels;  // inverse of the pixels per image, times 2^42
  int buffers;              // chunks in shared memory at a time
  int stages;               // groups of weights in shared memory at a time
  int group_bytes;          // bytes per group
  int pieces;               // slots whose unmodified pixels are in shared memory (raw_rows.cuh), or 0
  int raw_row;              // floats per channel of such a slot
  uint32_t inverse_image;   // inverse of the pixels per image, for numbers below 2^16
  int blocks;               // blocks of filters
  Strips strips;
  bool by_image;     // without strips: whether each image begins a new task; else positions run through the batch
  uint32_t spans;    // pieces of positions per image, or of the batch
  uint32_t tasks;    // pieces times blocks of filters
  float threshold;   // nonzero scaled values below it are unsplittable: see `ImageScale`
  bool half;         // whether low halves are left out
  bool early;        // a block has one task, in one image: pixels are staged while the weights are packed

  size_t row_bytes() const { return size_t{8} * raw_row * sizeof(float); }              // per slot
  int64_t buffer_bytes() const { return int64_t{2} * chunks.per_chunk * staged * 16; }  // per chunk: high halves, low

  // The first chunk of a part; for the part after the last, the number of chunks.
  FOPS_HOST_DEVICE int begin(int part) const {
    const int first = part * ((chunk_count + segment - 1) / segment) / parts * segment;
    return first < chunk_count ? first : chunk_count;
  }
};

// Columns of a wgmma: see `Choice` in choose.h.
constexpr int kMaxColumns = 128, kFewColumns = 32;

}  // namespace hopper
}  // namespace fops
