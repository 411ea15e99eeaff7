// The one scale of values that are to be split into halves.
#pragma once

#include "gpu/isa/halves.cuh"
#include "gpu/largest.cuh"

namespace fops {

// The power of two for a block's `count` values; 0 where none fits them: an infinity or NaN is among them, or a value
// that is not zero and, scaled, below `least`, where its low half would lose bits (0: never mind those). All kThreads
// threads call it; `scratch` is one shared word.
template <int kThreads, typename X>
__device__ float band_scale(const X* source, int count, float least, unsigned* scratch) {
  float largest = 0.0f;
  uint32_t smallest = ~0u;
  for (int i = threadIdx.x; i < count; i += kThreads) {
    const float v = static_cast<float>(source[i]);
    largest = larger(largest, v), smallest = min(smallest, nonzero_bits(v));
  }
  largest = block_max(largest, scratch);
  smallest = ~block_max(~smallest, scratch);
  float scale = kImageScale;
  const auto fits = [&] { return least == 0.0f || smallest >= nonzero_bits(least / scale); };
  if (largest * scale < kWindowLow || largest * scale > kWindowHigh || !fits()) scale = scale_for(largest);
  return largest < kLargestScaled && fits() ? scale : 0.0f;
}

}  // namespace fops
