// For any_shape.cu: loads the pixels of a chunk from global memory, splits them, and stages them in shared memory.
#pragma once

#include <type_traits>

#include "conv/hopper/split.cuh"
#include "gpu/divide.cuh"
#include "gpu/isa/bulk_copy.cuh"

namespace fops::hopper {

constexpr int kProducerThreads = 224;  // two warpgroups without the warp that loads weights

// The first position of a task. Its computation avoids 64-bit divisions if possible, because these take as long as a
// chunk.
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

struct StripSpan {
  long long image;  // first image
  int strip, row;   // number of the first strip in that image; first output row
  __device__ StripSpan(const Plan& plan, const Dims&, uint32_t span) {
    const Strips& s = plan.strips;
    const uint32_t group = span / s.pieces;
    row = static_cast<int>(span - group * s.pieces) * s.rows;
    const unsigned long long at = 1ull * group * s.together;
    image = at >> 32 ? static_cast<long long>(at / s.per_image) : static_cast<uint32_t>(at) / s.per_image;
    strip = static_cast<int>(at - image * s.per_image);
  }
  // Returns the image, counted from the task's first, of the strip that is `strips` strips after the first one.
  // *in_image receives the strip's number in that image.
  __device__ int further(const Strips& s, int strips, int* in_image) const {
    const int at = strip + strips, images = s.per_image == 1 ? at : divide(at, s.inverse_per_image);
    *in_image = at - images * s.per_image;
    return images;
  }
};
template <bool kStrips>
using SpanOf = std::conditional_t<kStrips, StripSpan, Span>;

// The position in x of the i-th staged pixel. Past the last pixel or image it is the last one again, so that there is
// no branch between loads; such pixels affect only positions that are not stored.
struct Pixel {
  int image, at;  // its image, counted from the task's first; its offset in a plane of the image
  __device__ Pixel(const Plan& plan, const Dims& d, const Span& span, int i) {
    const int pixels = d.H * d.W;
    at = span.first + i, image = 0;
    if (!plan.by_image) {  // the division is exact for numbers below 2^21 and divisors up to 2^20
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

// Return the scale of a task's image number `image`: from the array of the images' scales, with one load of two words;
// or, if the task has one image, the given scale.
__device__ inline ImageScale of_image(const ImageScale* images, int image) {
  const float2 both = __ldg(reinterpret_cast<const float2*>(images) + image);
  return {both.x, both.y};
}
__device__ inline ImageScale of_image(const ImageScale& own, int) { return own; }

// Stages `count` full slots from slot `first` on; a thread splits kRows entries (eight channels of a pixel) together.
// kRagged: the last slot has 5 to 7 channels, and the last channel is read again in place of the missing ones.
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
      // Fits into 32 bits: an image has at most 2^28 values, and the offset is counted from the task's first image.
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

// Stages slots of one channel of 8 neighbouring pixels. A lane splits one pixel, and gets the other seven values of its
// entry from the next seven lanes, so only 25 of 32 lanes have an entry.
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

// Stages the slots [pixel][16 bytes] of a chunk in `buffer`: first the high parts of all its slots, then the low parts.
// kProducerThreads threads call this. `x` and `images` point to the task's first image. A thread has 8 * kRows loads in
// flight.
template <int kRows, typename X, typename AnySpan, typename Scales>
__device__ Seen stage(const Plan& plan, const Dims& d, const X* x, const AnySpan& span, int chunk, const Scales& images,
                      uint4* buffer, int thread) {
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
    if (plan.chunks.narrow == 4)
      narrow(std::integral_constant<int, 4>());
    else if (plan.chunks.narrow == 2)
      narrow(std::integral_constant<int, 2>());
    else
      stage_single(plan, d, x, span, first + full, rest, images, high_to, low_to, thread, &seen);
  }
  return seen;
}

}  // namespace fops::hopper
