// A convolution as steps of a matrix product, for host and device. This is plain C++.
//
//   y (filters x positions) = weights (filters x depth) * pixels (depth x positions)
//
// A position is a pixel of the image; the results at positions in the last K - 1 columns and rows are not outputs, and
// are dropped. For tap (p, q), position i needs pixel i + p W + q. So a tap is an offset in shared memory, and an
// entry of a slot is staged once, not once per tap.
//
//   slot    8 half-precision values (16 bytes) per staged pixel: 8 channels of the pixel; or, for the last channels, 4, 2 or
//           1 channels of 2, 4 or 8 neighbouring pixels
//   unit    a slot at a tap: 8 values of the depth
//   step    two units, one wgmma: 16 values of the depth
//   chunk   some slots that are staged together, and all steps over them
#pragma once

#include <cstddef>
#include <cstdint>

#include "conv/kernel.h"
#include "gpu/divide.cuh"

namespace fops {

// Minimum number of products of a sum in which the products of two low parts may be omitted. The bound is 4 + sqrt(C K
// K) units of 2^-24 (docs/precision.md), and the omission may cost 9 units. A minimum of 49 is too small: sums of 52
// and 60 equal terms exceeded the bound by 5%.
constexpr int kMinProducts = 64;
// Minimum number of products of a sum for any_shape.cu and image_bands.cu. With weights over four decades, sums of 20
// products reached 1.1 times the bound.
constexpr int kFewestProducts = 25;

namespace hopper {

constexpr int kMaxK = 11, kMaxSteps = 128;      // maximum K; maximum steps of a chunk
constexpr int kTileRows = 64;                   // rows of a wgmma: 64 filters, or the high and low parts of 32 filters
constexpr int kTileBytes = kTileRows * 16 * 2;  // bytes of a tile's weights in a step
constexpr int kTileDepth = kTileBytes / 2;  // bytes between a tile's two units; the rows of a unit are 16 bytes apart

// Returns the maximum number of steps per chain. A chain is the steps that the tensor cores add up, truncating toward
// zero, before ordinary float32 additions take over its sum. On 197 layers whose images and filters consist of equal
// values, the largest losses in units of 2^-24 were 11 with sums of one or two chains of 4 steps, 24 with chains of 8,
// and 36 with chains of 12 (34 from 1,024 products on). The bound allows 4 plus the square root of the number of
// products: 11 units for 49 products, 24 for 400, 36 for 1,024. With weights over four decades a sum loses most if it
// has a large first term and many small ones: of 100 to 400 million sums each, some reached 1.34 times the bound for 64
// products and 1.30 times for 54 with chains of 4, but 0.84 and 0.80 with chains of 2; 1.00 for 36 products with chains
// of 2, but 0.84 with chains of 1; 0.84 for 108 products with chains of 4.
constexpr int max_chain_steps(int products) {
  return products >= 1024 ? 12 : products >= 400 ? 8 : products >= 100 ? 4 : products > 36 ? 2 : 1;
}

// In small batches several blocks divide the depth among them, in whole segments. A segment is the smallest number of
// chunks with at least kMinSegment steps. Batches of all sizes add in the same order: the chains of a segment one after
// the other, then the sum of the segment's products with a low part.
constexpr int kMinSegment = 10;

constexpr int kConsumerThreads = 256;           // two warpgroups
constexpr int kMaxBuffers = 4, kMaxStages = 8;  // maximum chunks of pixels and groups of weights in shared memory
constexpr int kMaxPieces = 4;                   // slots whose rows of pixels TMA keeps in shared memory: 4, 2 or none
constexpr int kLot = 64;                        // entries of a slot that a warp splits at a time (raw_rows.cuh)
constexpr int kMaxParts = 8;                    // maximum blocks of a cluster that share a task
// Bytes of the buffer for outputs: per warp 16 filters by 64 outputs, with 4 more floats per filter against bank
// conflicts.
constexpr int kOutgoingBytes = kConsumerThreads / 32 * 16 * 68 * 4;
constexpr int kSharedBytes = 4400;  // bytes of the kernel's static shared memory

struct Slot {
  int channel, channels;                                        // first channel, and number of channels: 8, 4, 2 or 1
  FOPS_HOST_DEVICE int pixels() const { return 8 / channels; }  // number of neighbouring pixels
};

struct Unit {
  Slot slot;
  int in_chunk;  // the slot's number in its chunk
  int p, q;      // the tap; if a tile's rows have several taps, the tap of its first rows
};

// Numbers the slots of an image, and the units and steps of each chunk.
struct Chunks {
  int C, K;
  int full;       // number of slots for eight channels; the last of them may have 5 to 7
  int rest;       // number of slots after these, which have up to four channels in all
  int narrow;     // number of channels per such slot: 4, 2 or 1
  int per_chunk;  // number of slots per chunk; the last chunk may have fewer
  int taps;       // number of taps in a tile's rows, more than 1 only with few filters; these taps use the same pixels
  int shift;  // number of columns from one of these taps to the next: the pixels per slot of the slots after the full

  FOPS_HOST_DEVICE int slots() const { return full + rest; }
  FOPS_HOST_DEVICE int count() const { return (slots() + per_chunk - 1) / per_chunk; }
  FOPS_HOST_DEVICE Slot slot(int i) const {
    return i < full ? Slot{8 * i, 8} : Slot{8 * full + (i - full) * narrow, narrow};
  }
  // row_units: the number of units of a slot per row of a filter. column: the column of the filter at which a unit of
  // the row begins. units: the number of units of a slot for all rows. A row's columns are divided into blocks of
  // `shift` times `taps` columns; units begin in the first `shift` columns of a block, and the rows of other taps cover
  // the others.
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
  // Sets *u to unit `half` (0 or 1) of a step; returns false if the step has no second unit. Full slots form pairs: the
  // two units of a step are the same tap of both slots. The units of the other slots are taken two by two. In both
  // cases the second unit is behind the first one in shared memory.
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

// has_rows: whether TMA can load rows of pixels from an image's planes (raw_rows.cuh). many_images_per_row: whether a
// row contains so many small images that their copies, one per image, matter.
inline bool has_rows(const fops_conv& c) { return c.C % 8 == 0 && c.H * c.W % 4 == 0; }
inline bool many_images_per_row(const fops_conv& c) { return c.H * c.W < 512; }

// Sets *chunks to the slots of C channels. If one to four channels are left over after the full slots, each further
// slot has `narrow` (4, 2 or 1) of them, for neighbouring pixels; five to seven channels take a full slot. Returns
// false for a `narrow` that would leave half of a slot empty, or would need several slots after full ones: all chunks
// except the last must have the same layout.
inline bool chunks_of(int C, int K, int narrow, Chunks* chunks) {
  const int left = C % 8 > 4 ? 0 : C % 8;
  *chunks = {C, K, C / 8 + (C % 8 > 4), (left + narrow - 1) / narrow, narrow, 1, 1, left ? 8 / narrow : 1};
  return left ? (narrow < 2 * left || narrow == 1) && (chunks->rest == 1 || !chunks->full) : narrow == 1;
}

// Returns the slots for which `rest` needs the fewest units.
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

// Returns the offsets of a step's units in entries of 16 bytes (`slot` entries per slot, `width` per row): the first
// unit's offset in the lower 16 bits, and the distance to the second unit in the upper 16 bits. Added to the lower 32
// bits of a descriptor of a chunk's pixels, this gives the descriptor of the step's pixels.
inline uint32_t place_of(const Chunks& chunks, int chunk, int step, uint32_t slot, uint32_t width) {
  Unit a = {}, b = {};
  chunks.unit_at(chunk, step, 0, &a);
  const uint32_t from = a.in_chunk * slot + a.p * width + a.q;
  // A missing unit has zero weights, so it may read the first unit's pixels again.
  const bool two = chunks.unit_at(chunk, step, 1, &b);
  return from | (two ? b.in_chunk * slot + b.p * width + b.q - from : 0) << 16;
}

// Returns a unit's first weight in 16 bits: channel, counted from the chunk's first, << 8 | row << 4 | column; or
// kNoUnit. It is computed on the host, because on the device its divisions would take longer than splitting eight
// weights.
constexpr uint16_t kNoUnit = 0xffff;
inline uint16_t origin_of(const Chunks& chunks, int chunk, int step, int half) {
  Unit u;
  if (!chunks.unit_at(chunk, step, half, &u)) return kNoUnit;
  return static_cast<uint16_t>((u.slot.channel - chunks.slot(chunk * chunks.per_chunk).channel) << 8 | u.p << 4 | u.q);
}

// The offsets (place_of) and first weights (origin_of) of the units of all steps. Index 0 is for all chunks except the
// last, index 1 for the last. A kernel argument, so it is read from constant memory.
struct Steps {
  uint32_t places[2][kMaxSteps];
  uint16_t origins[2][2 * kMaxSteps];
};

// If many positions are not outputs (for 14x14 images and 7x7 filters two of three), tasks consist of strips. A strip
// is eight output columns; it stages these and the next K - 1 columns. A task has as many strips side by side, of one
// image or several, as fit.
//
//   staged   | strip 0: 8 + K - 1 pixels | strip 1 | strip 2 |     rows, and K - 1 more below
//   eights   | row 0 of strip 0 | row 0 of 1 | row 0 of 2 | row 1 of 0 | ...   8 + K - 1 pixels apart
//
// wgmma takes its columns in groups of eight, which can be any fixed distance apart. A tap is an offset in shared
// memory here too: p rows of all strips, plus q.
struct Strips {
  int together;   // number of strips of a task, side by side; 0: tasks have no strips
  int rows;       // output rows of a task
  int width;      // staged pixels per row of a strip: 8 + K - 1
  int per_image;  // strips per image
  int pieces;     // pieces of `rows` output rows per image
  // For `divide`: inverses of `width`, of together * width, and of `per_image` (0 if that is 1).
  uint32_t inverse_width, inverse_all, inverse_per_image;
};

// The plan of a layer with a tiling (Choice). A task is `positions` positions times the filters of a block.
struct Plan {
  Chunks chunks;
  int chunk_count,          // number of chunks
      first_steps,          // steps of each chunk except the last
      last_steps;           // steps of the last chunk
  int steps;                // steps of all chunks
  int chain;                // maximum number of steps per chain
  int segment;              // chunks per segment
  int parts;                // blocks of a cluster, which divide a task's segments among them
  int kept;                 // maximum number of sums that such a block stores for the other blocks
  int first_group,          // number of steps whose weights are loaded together, in each chunk except the last
      last_group;           // the same number in the last chunk
  int positions;            // positions per task
  int reach;                // columns that a tile computes beyond its positions, because its rows have several taps
  int staged;               // staged pixels per slot
  uint32_t inverse_staged;  // for `divide`: inverse of `staged`
  uint64_t inverse_pixels;  // inverse of the pixels per image, times 2^42
  int buffers;              // chunks of pixels in shared memory at a time
  int stages;               // groups of weights in shared memory at a time
  int group_bytes;          // bytes per group
  int pieces;               // slots whose original pixels TMA keeps in shared memory (raw_rows.cuh), or 0
  int raw_row;              // floats per channel of such a slot
  uint32_t inverse_image;   // for `divide`: inverse of the pixels per image
  int blocks;               // number of blocks of filters
  Strips strips;
  bool by_image;    // without strips: whether a task's positions are in one image; otherwise in consecutive images
  uint32_t spans;   // without strips: groups of `positions` positions per image (by_image) or in the batch
  uint32_t tasks;   // number of tasks: groups of positions times blocks of filters
  float threshold;  // nonzero scaled values below it are unsplittable: see `ImageScale`
  bool half;        // whether the products with low parts are omitted (step 13)
  bool early;       // whether each block has one task, in one image; then it stages pixels while the weights are packed

  size_t row_bytes() const { return size_t{8} * raw_row * sizeof(float); }              // per piece
  int64_t buffer_bytes() const { return int64_t{2} * chunks.per_chunk * staged * 16; }  // per chunk: high and low parts

  // Returns the first chunk of a part; for part == parts, the number of chunks.
  FOPS_HOST_DEVICE int begin(int part) const {
    const int first = part * ((chunk_count + segment - 1) / segment) / parts * segment;
    return first < chunk_count ? first : chunk_count;
  }
};

// Largest and smallest number of columns of a wgmma: see `Choice` in choose.h.
constexpr int kMaxColumns = 128, kFewColumns = 32;

}  // namespace hopper
}  // namespace fops
