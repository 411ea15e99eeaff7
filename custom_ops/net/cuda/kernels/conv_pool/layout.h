// Which weight each register of an mma holds (gpu/isa/mma.cuh), for the kernels and for the code that packs their
// weights.
#pragma once

#include <cuda_runtime.h>

namespace fops {
namespace conv_pool {

// A tap of a filter: (channel, p, q); zero outside the filter.
struct Tap {
  int filter, channel, p, q;
};

// The first layer. A tile's 16 rows are the four outputs of a pool's window, of four filters:
//
//   row r        filter r % 4, the window's left (r / 4 % 2 = 0) or right column, its upper (r < 8) or lower row
//   step s       two rows of the (K + 1) x 8 pixels under a window: 2 s for k < 8, 2 s + 1 for the others
//   column of B  a window
struct FirstLayer {
  static constexpr int kFilters = 4;  // filters per tile
  static constexpr float kLowScale = 1.0f;  // scale of the low halves relative to their size
  __host__ __device__ static constexpr int steps(int K) { return (K + 1) / 2; }
  static Tap tap(int step, int row, int k) {
    return {row % 4, 0, 2 * step + k / 8 - row / 8, k % 8 - row / 4 % 2};
  }
};

// The later layer. A tile's 16 rows are filters; a step is four pixels of a row, with four channels each:
//
//   step s       row s / 2 of the filter, columns 4 (s % 2) to 4 (s % 2) + 3; lane t has the t-th of them
//   column of B  an output of a row
struct LaterLayer {
  static constexpr int kFilters = 16;
  static constexpr float kLowScale = 2048.0f;
  __host__ __device__ static constexpr int steps(int K) { return 2 * K; }
  static Tap tap(int step, int row, int k) {
    return {row, k / 8 * 2 + k % 2, step / 2, step % 2 * 4 + k % 8 / 2};
  }
};

}  // namespace conv_pool
}  // namespace fops
