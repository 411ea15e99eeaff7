// For conv_pixels.cu: stages an image in shared memory as words, each of which is two neighbouring pixels as halves.
#pragma once

#include "gpu/isa/bulk_copy.cuh"
#include "gpu/isa/halves.cuh"
#include "net/cuda/kernels/conv_pixels/layout.cuh"

namespace fops::fused_pixels {

// Converts the bytes 0 and 2 of `two` to scaled halves without a conversion instruction: as a half, 0x6400 | b is 1024
// + b, and the multiply-add that subtracts 1024 is exact.
__device__ inline uint32_t pixels_to_halves(uint32_t two, __half2 scale, __half2 offset) {
  const uint32_t biased = two | 0x64006400u;
  const __half2 exact = __hfma2(reinterpret_cast<const __half2&>(biased), scale, offset);
  return bits(exact);
}

template <bool kTwo>
struct alignas(kTwo ? 8 : 16) Words {
  uint32_t at[kTwo ? 2 : 4];
};

// Starts the copy of an image's bytes into shared memory. (GPUs before sm_80, which have no asynchronous copies, never
// run this kernel.)
template <int kThreads>
__device__ void fetch(const Sizes& s, const uint8_t* source, uint32_t* raw) {
  // With vector_in, an image's size is a multiple of 4, so that copies of whole words do not read past its end.
  const int bytes = s.rows * s.W;
  if (s.vector_in) {
    // A warp's copies begin on a 128-byte line, which is faster if they cross the bus.
    const int skew = static_cast<int>(reinterpret_cast<uintptr_t>(source) % 128);
    const uint32_t to = static_cast<uint32_t>(__cvta_generic_to_shared(raw));
    for (int i = 4 * threadIdx.x - skew; i < bytes; i += 4 * kThreads)
      if (i >= 0) copy_async_4(to + i, source + i);
  } else {
    for (int i = threadIdx.x; i < bytes; i += kThreads) reinterpret_cast<uint8_t*>(raw)[i] = source[i];
  }
}

// Converts fetched bytes to words of two halves: word w of a row is (x[w], x[w + 1]) or, if kTwo, (x[2w], x[2w + 1]). A row
// may begin inside a word of `raw`, so two words are read for four pixels. Pixels past the end of a row or image are
// multiplied by zero weights.
template <bool kTwo, int kThreads>
__device__ void expand(const Sizes& s, const uint32_t* raw, float scale, uint32_t* hi) {
  const __half2 by = __float2half2_rn(scale), offset = __float2half2_rn(-1024.0f * scale);
  const int groups = s.groups;
  for (int i = threadIdx.x; i < s.rows * groups; i += kThreads) {
    const int row = divide(i, s.inverse_groups), column = 4 * (i - row * groups), at = row * s.W + column;
    const uint32_t first = raw[at / 4], second = raw[at / 4 + 1];
    const uint32_t four = __funnelshift_r(first, second, at % 4 * 8);
    uint32_t* to = hi + row * s.stride;
    if constexpr (kTwo) {
      *reinterpret_cast<uint2*>(to + column / 2) =
          make_uint2(pixels_to_halves(__byte_perm(four, 0, 0x4140), by, offset),
                     pixels_to_halves(__byte_perm(four, 0, 0x4342), by, offset));
    } else {
      const uint32_t fifth = second >> at % 4 * 8;
      *reinterpret_cast<uint4*>(to + column) =
          make_uint4(pixels_to_halves(__byte_perm(four, 0, 0x4140), by, offset),
                     pixels_to_halves(__byte_perm(four, 0, 0x4241), by, offset),
                     pixels_to_halves(__byte_perm(four, 0, 0x4342), by, offset),
                     pixels_to_halves(__byte_perm(four, fifth & 255, 0x7473), by, offset));
    }
  }
}

// Stages an image in `hi`, as words of two halves each, and, if kResidue, its rounding errors in `lo` in the same
// layout. Returns whether all pixels that this thread staged are exact in half precision.
template <bool kTwo, int kThreads, bool kResidue>
__device__ bool stage(const Sizes& s, const float* source, float scale, uint32_t* hi, uint32_t* lo) {
  bool exact = true;
  const auto put = [&](float here, float next, uint32_t* high, uint32_t* low) {
    exact = round_pair<kResidue, false, kTwo>(here, next, high, low) && exact;
  };
  constexpr int kStep = kTwo ? 2 : 1;  // pixels from one word to the next
  if (s.vector_in) {
    const int groups = s.groups;
    for (int i = threadIdx.x; i < s.rows * groups; i += kThreads) {
      const int row = divide(i, s.inverse_groups), column = 4 * (i - row * groups);
      const float4 four = __ldg(reinterpret_cast<const float4*>(source) + i);
      const float fifth = !kTwo && column + 4 < s.W ? source[4 * i + 4] : 0.0f;
      const float v[5] = {four.x * scale, four.y * scale, four.z * scale, four.w * scale, fifth * scale};
      Words<kTwo> high, low;
#pragma unroll
      for (int e = 0; e < 4 / kStep; ++e) put(v[kStep * e], v[kStep * e + 1], high.at + e, low.at + e);
      const int at = row * s.stride + column / kStep;
      *reinterpret_cast<Words<kTwo>*>(hi + at) = high;
      if (kResidue) *reinterpret_cast<Words<kTwo>*>(lo + at) = low;
    }
  } else {
    for (int row = threadIdx.x / 32; row < s.rows; row += kThreads / 32)
      for (int w = threadIdx.x % 32; kStep * w < s.W; w += 32) {
        const float* from = source + row * s.W + kStep * w;
        put(from[0] * scale, kStep * w + 1 < s.W ? from[1] * scale : 0.0f, hi + row * s.stride + w,
            lo + row * s.stride + w);
      }
  }
  return exact;
}

}  // namespace fops::fused_pixels
