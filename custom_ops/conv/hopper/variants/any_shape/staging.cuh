// Any shape: the pixels of a chunk from global memory, split, to shared memory.
#pragma once

#include <type_traits>

#include "conv/hopper/split.cuh"
#include "gpu/divide.cuh"
#include "gpu/isa/bulk_copy.cuh"

namespace fops {
namespace hopper {

constexpr int kProducerThreads = 224;  // two warpgroups except for the warp that loads weights

// Which positions a task has. Avoids 64-bit divisions where possible: they take as long as a chunk.
struct Span {
  long long image;  // first image
  int first;        // first position in that image
  __device__ Span(const Plan& plan, const Dims& d, uint32_t span) {
    const uint32_t pixels = d.H * d.W;
    if (plan.by_image) {
      const uint32_t i = span / plan.spans;
      image = i, first = static_cast<int>((span - i * plan.spans) * plan.positions);
    } else if (const unsigned long long at = 1ull * span * plan.positions; at >> 32) {
      image = static_cast<long long>(at / pixels), first = static_cast<int>(at - image * pixels);
    } else {
      const uint32_t i = static_cast<uint32_t>(at) / pixels;
      image = i, first = static_cast<int>(static_cast<uint32_t>(at) - i * pixels);
    }
  }
};

// The same for a task made of strips.
struct StripSpan {
  long long image;  // first image
  int strip, row;   // first strip in that image, and output row
  __device__ StripSpan(const Plan& plan, const Dims&, uint32_t span) {
    const Strips& s = plan.strips;
    const uint32_t group = span / s.pieces;
    row = static_cast<int>(span - group * s.pieces) * s.rows;
    const unsigned long long at = 1ull * group * s.together;
    image = at >> 32 ? static_cast<long long>(at / s.per_image) : static_cast<uint32_t>(at) / s.per_image;
    strip = static_cast<int>(at - image * s.per_image);
  }
  // For the strip `further` strips on: its image, counted from the first, and the strip in that image.
  __device__ int further(const Strips& s, int strips, int* in_image) const {
    const int at = strip + strips, images = s.per_image == 1 ? at : divide(at, s.inverse_per_image);
    *in_image = at - images * s.per_image;
    return images;
  }
};
template <bool kStrips>
using SpanOf = std::conditional_t<kStrips, StripSpan, Span>;

// Where a staged pixel is read: its image, counted from the task's first, and its offset in the image. Past the end,
// which affects only positions that are not stored, it is the last pixel or image again, so that there is no branch
// between loads.
struct Pixel {
  int image, at;
  __device__ Pixel(const Plan& plan, const Dims& d, const Span& span, int i) {
    const int pixels = d.H * d.W;
    at = span.first + i, image = 0;
    if (!plan.by_image) {  // a number below 2^21 by one of at most 2^20: exact
      image = static_cast<int>(static_cast<uint32_t>(at) * plan.inverse_pixels >> 42);
      at -= image * pixels;
      image = static_cast<int>(min(static_cast<long long>(image), d.B - 1 - span.image));
    }
    at = min(at, pixels - 1);
  }
  __device__ Pixel(const Plan& plan, const Dims& d, const StripSpan& span, int i) {
    const Strips& s = plan.strips;
    const int row = divide(i, s.inverse_all), in_row = i - row * s.together * s.width;
    const int strips = divide(in_row, s.inverse_width), column = in_row - strips * s.width;
    int strip;
    image = span.further(s, strips, &strip);
    image = static_cast<int>(min(static_cast<long long>(image), d.B - 1 - span.image));
    at = min(span.row + row, d.H - 1) * d.W + min(8 * strip + column, d.W - 1);
  }
};

// Scales of a task's images: those of its first image and the following ones, each loaded from global memory as two
// words at once; or, for a task with one image, the scale given here.
__device__ inline ImageScale of_image(const ImageScale* images, int image) {
  const float2 both = __ldg(reinterpret_cast<const float2*>(images) + image);
  return {both.x, both.y};
}
__device__ inline ImageScale of_image(const ImageScale& own, int) { return own; }

// Rows of full slots, from the chunk's first slot on. kRagged: with 5 to 7 channels, the last one is read again for the
// missing ones.
template <int kRows, bool kRagged, typename X, typename AnySpan, typename Scales>
__device__ void stage_full(const Plan& plan, const Dims& d, const X* x, const AnySpan& span, int first, int count,
                           const Scales& images, uint4* high_to, uint4* low_to, int thread, Seen* seen) {
  const uint32_t pixels = d.H * d.W;
  const int rows = count * plan.staged;
#pragma unroll 1
  for (int i = thread; i < rows; i += kRows * kProducerThreads) {
    float v[kRows][8];
    ImageScale by[kRows];
#pragma unroll
    for (int n = 0; n < kRows; ++n) {
      const int row = min(i + n * kProducerThreads, rows - 1), s = divide(row, plan.inverse_staged);
      const Pixel pixel(plan, d, span, row - s * plan.staged);
      const int channel = 8 * (first + s);
      // Below 2^32: an image has at most 2^28 values, and a task begins at its first image.
      const uint32_t from = (static_cast<uint32_t>(pixel.image) * d.C + channel) * pixels + pixel.at;
      by[n] = of_image(images, pixel.image);
#pragma unroll
      for (int e = 0; e < 8; ++e)
        v[n][e] = static_cast<float>(
            __ldg(x + (from + static_cast<uint32_t>(kRagged ? min(e, d.C - 1 - channel) : e) * pixels)));
    }
#pragma unroll
    for (int n = 0; n < kRows; ++n)
      if (const int row = i + n * kProducerThreads; row < rows)
        seen->split_row(v[n], by[n], high_to + row, low_to + row);
  }
}

// Rows of narrow slots: kChannels channels of 8 / kChannels neighbours.
template <int kChannels, typename X, typename AnySpan, typename Scales>
__device__ void stage_narrow(const Plan& plan, const Dims& d, const X* x, const AnySpan& span, int first, int count,
                             const Scales& images, uint4* high_to, uint4* low_to, int thread, Seen* seen) {
  const int pixels = d.H * d.W;
#pragma unroll 1
  for (int i = thread; i < count * plan.staged; i += kProducerThreads) {
    const int s = divide(i, plan.inverse_staged);
    const Pixel pixel(plan, d, span, i - s * plan.staged);
    const int channel = plan.chunks.slot(first + s).channel;
    const X* from = x + (pixel.image * d.C + channel) * pixels;
    float v[8];
#pragma unroll
    for (int e = 0; e < 8; ++e) {
      const int c = min(e % kChannels, d.C - 1 - channel), at = min(pixel.at + e / kChannels, pixels - 1);
      v[e] = static_cast<float>(__ldg(from + c * pixels + at));
    }
    seen->split_row(v, of_image(images, pixel.image), high_to + i, low_to + i);
  }
}

// Rows of slots of one channel, 8 neighbours each. A lane splits one pixel and gets the other halves of its row from
// the seven lanes after it, so 25 lanes of 32 have a row.
template <typename X, typename AnySpan, typename Scales>
__device__ void stage_single(const Plan& plan, const Dims& d, const X* x, const AnySpan& span, int first, int count,
                             const Scales& images, uint4* high_to, uint4* low_to, int thread, Seen* seen) {
  constexpr int kAhead = 6, kRowsPerWarp = 25, kWarps = kProducerThreads / 32;
  constexpr unsigned kAll = 0xffffffffu;
  const int pixels = d.H * d.W, lane = thread % 32;
  for (int s = 0; s < count; ++s) {
    const int channel = plan.chunks.slot(first + s).channel;
#pragma unroll 1
    for (int base = thread / 32 * kRowsPerWarp; base < plan.staged; base += kAhead * kWarps * kRowsPerWarp) {
      float v[kAhead];
      ImageScale by[kAhead];
#pragma unroll
      for (int n = 0; n < kAhead; ++n) {
        const Pixel pixel(plan, d, span, base + n * kWarps * kRowsPerWarp + lane);
        v[n] = static_cast<float>(__ldg(x + (pixel.image * d.C + channel) * pixels + pixel.at));
        by[n] = of_image(images, pixel.image);
      }
#pragma unroll
      for (int n = 0; n < kAhead; ++n) {
        const Split own = split_enlarged(v[n] * by[n].scale);
        uint32_t both = pack(own.hi, own.lo);
        const bool zero = not_finite(both & 0xffffu);
        seen->needs_fallback |= zero || nonzero_bits(v[n]) < nonzero_bits(by[n].minimum);
        if (zero) both = 0;
        const uint32_t next = __shfl_down_sync(kAll, both, 1);
        uint32_t hi[4], lo[4];
        hi[0] = __byte_perm(both, next, 0x5410), lo[0] = __byte_perm(both, next, 0x7632);
#pragma unroll
        for (int e = 1; e < 4; ++e) {
          hi[e] = __shfl_down_sync(kAll, hi[0], 2 * e);
          lo[e] = __shfl_down_sync(kAll, lo[0], 2 * e);
        }
        seen->low |= lo[0];
        const int row = base + n * kWarps * kRowsPerWarp + lane;
        if (lane < kRowsPerWarp && row < plan.staged) {
          high_to[s * plan.staged + row] = make_uint4(hi[0], hi[1], hi[2], hi[3]);
          low_to[s * plan.staged + row] = make_uint4(lo[0], lo[1], lo[2], lo[3]);
        }
      }
    }
  }
}

// Stages the slots [pixel][16 bytes] of a chunk: high halves of all its slots, then the low halves. kProducerThreads
// threads call it; `x` and `images` point to the task's first image. 8 kRows loads are in flight together.
template <int kRows, typename X, typename AnySpan, typename Scales>
__device__ Seen stage(const Plan& plan, const Dims& d, const X* x, const AnySpan& span, int chunk,
                      const Scales& images, uint4* buffer, int thread) {
  const int first = chunk * plan.chunks.per_chunk, full = plan.chunks.full_of(chunk);
  uint4 *high_to = buffer, *low_to = buffer + plan.chunks.per_chunk * plan.staged;
  Seen seen;
  if (d.C % 8 > 4)
    stage_full<kRows, true>(plan, d, x, span, first, full, images, high_to, low_to, thread, &seen);
  else
    stage_full<kRows, false>(plan, d, x, span, first, full, images, high_to, low_to, thread, &seen);
  const int rest = plan.chunks.slots_of(chunk) - full;
  if (rest > 0) {
    high_to += full * plan.staged, low_to += full * plan.staged;
    const auto narrow = [&](auto channels) {
      stage_narrow<decltype(channels)::value>(plan, d, x, span, first + full, rest, images, high_to, low_to, thread,
                                              &seen);
    };
    if (plan.chunks.narrow == 4) narrow(std::integral_constant<int, 4>());
    else if (plan.chunks.narrow == 2) narrow(std::integral_constant<int, 2>());
    else stage_single(plan, d, x, span, first + full, rest, images, high_to, low_to, thread, &seen);
  }
  return seen;
}

}  // namespace hopper
}  // namespace fops
