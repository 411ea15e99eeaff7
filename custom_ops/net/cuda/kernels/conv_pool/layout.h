// Which weight each element of operand A of an mma is (gpu/isa/mma.cuh), for the kernels and for the code that packs
// their weights.
#pragma once

#include <cuda_runtime.h>

namespace fops::conv_pool {

// A tap of one of the tile's filters: (channel, p, q). A tap outside the filter stands for a zero weight.
struct Tap {
  int filter, channel, p, q;
};

// The first layer's kernel. The 16 rows of A are the four outputs of a pool's window, for four filters:
//
//   row r of A   filter r % 4, the window's left (r / 4 % 2 = 0) or right column, its upper (r < 8) or lower row
//   step s       rows 2 s (for k < 8) and 2 s + 1 (for k >= 8) of the (K + 1) x 8 pixels under a window
//   column of B  a window
struct FirstLayer {
  static constexpr int kFilters = 4;        // filters per tile
  static constexpr float kLowScale = 1.0f;  // additional factor of the low parts of the split weights
  __host__ __device__ static constexpr int steps(int K) { return (K + 1) / 2; }
  static Tap tap(int step, int row, int k) { return {row % 4, 0, 2 * step + k / 8 - row / 8, k % 8 - row / 4 % 2}; }
};

// The later layer's kernel. The 16 rows of A are filters; a step is four pixels of a row, with four channels each:
//
//   step s       row s / 2 of the filter, columns 4 (s % 2) to 4 (s % 2) + 3; lane 4 g + t has the t-th of these columns
//   column of B  one of eight outputs in a row of two windows
struct LaterLayer {
  static constexpr int kFilters = 16;
  static constexpr float kLowScale = 2048.0f;
  __host__ __device__ static constexpr int steps(int K) { return 2 * K; }
  static Tap tap(int step, int row, int k) { return {row, k / 8 * 2 + k % 2, step / 2, step % 2 * 4 + k % 8 / 2}; }
};

}  // namespace fops::conv_pool
