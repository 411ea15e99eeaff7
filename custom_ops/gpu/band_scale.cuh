// Finds a common scale for values that will be split into halves: a band's pixels or a block's weights.
#pragma once

#include "gpu/isa/halves.cuh"
#include "gpu/largest.cuh"

namespace fops {

// Returns the power of two by which `count` values are scaled; 0 if the values cannot be split well. They cannot if
// there is an infinity, a NaN, a value too large for any scale, or a nonzero value that, once scaled, is below
// `minimum`, where its low part would lose bits (minimum 0: not checked). All kThreads threads of the team call this
// function; `scratch` is one word of shared memory.
template <int kThreads, typename X, typename Team = WholeBlock>
__device__ float band_scale(const X* source, int count, float minimum, unsigned* scratch, const Team& team = {}) {
  float largest = 0.0f;
  uint32_t smallest = ~0u;
  for (int i = team.thread(); i < count; i += kThreads) {
    const float v = static_cast<float>(source[i]);
    largest = larger(largest, v), smallest = min(smallest, nonzero_bits(v));
  }
  largest = block_max(largest, scratch, team);
  smallest = ~block_max(~smallest, scratch, team);
  float scale = kImageScale;
  const auto fits = [&] { return minimum == 0.0f || smallest >= nonzero_bits(minimum / scale); };
  if (largest * scale < kWindowLow || largest * scale > kWindowHigh || !fits()) scale = scale_for(largest);
  return largest < kLargestScaled && fits() ? scale : 0.0f;
}

struct WeightScale {
  float scale;  // a power of two
  bool fits;    // whether the scaled weights can be split well
};

// Returns the scale of the weights of a block's filters. It does not fit if a weight is an infinity, NaN or too large,
// or is nonzero and, once scaled, below `minimum` (minimum 0: not checked). All `threads` threads of the block call
// this function; `scratch` is one word of shared memory.
__device__ inline WeightScale weight_scale(const float* __restrict__ weights, int count, float minimum, int threads,
                                           unsigned* scratch) {
  constexpr int kAhead = 8;
  float largest = 0.0f;
  uint32_t smallest = ~0u;
  for (int first = threadIdx.x; first < count; first += kAhead * threads) {
    float v[kAhead];
#pragma unroll
    for (int j = 0; j < kAhead; ++j) v[j] = first + j * threads < count ? __ldg(weights + first + j * threads) : 0.0f;
#pragma unroll
    for (int j = 0; j < kAhead; ++j) largest = larger(largest, v[j]), smallest = min(smallest, nonzero_bits(v[j]));
  }
  largest = block_max(largest, scratch);
  const float scale = scale_for(largest);
  const bool small = minimum > 0.0f && smallest < nonzero_bits(minimum / scale);
  return {scale, !__syncthreads_or(small) && largest < kLargestScaled};
}

}  // namespace fops
