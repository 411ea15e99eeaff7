// What every kernel file needs to launch: the sizes as the device sees them, the element type of x, the grid.
#pragma once

#include <algorithm>
#include <climits>
#include <cstdint>

#include "../core/variant.h"
#include "cuda_check.h"

namespace fops {

// One side of a tensor fits in an int (takes_any checks it); a whole tensor does not, so B stays 64 bits wide and
// every kernel forms its base pointers in 64 bits: 10,000 images of fa2017 are already 2.9e8 outputs, 1.15e9 bytes.
struct Dims {
  long long B;
  int C, H, W, M, K, OH, OW;
};

inline Dims dims(const fops_conv& c) {
  return {c.B,
          static_cast<int>(c.C),
          static_cast<int>(c.H),
          static_cast<int>(c.W),
          static_cast<int>(c.M),
          static_cast<int>(c.K),
          static_cast<int>(out_h(c)),
          static_cast<int>(out_w(c))};
}

inline bool takes_any(const fops_conv& c) {
  return c.C <= INT_MAX && c.H <= INT_MAX && c.W <= INT_MAX && c.M <= INT_MAX && c.K <= INT_MAX &&
         c.C * c.K * c.K <= INT_MAX;
}

// Products that could overflow 64 bits for absurd sizes, saturated: predicates compare them with small limits.
inline int64_t saturating(double value) { return value < 9e18 ? static_cast<int64_t>(value) : INT64_MAX; }
inline int64_t image_floats(const fops_conv& c) { return saturating(1.0 * c.C * c.H * c.W); }
inline int64_t weight_floats(const fops_conv& c) { return saturating(1.0 * c.M * c.C * c.K * c.K); }
inline int64_t output_floats(const fops_conv& c) { return saturating(1.0 * c.M * out_h(c) * out_w(c)); }

__host__ __device__ constexpr long long ceil_div(long long a, long long b) { return (a + b - 1) / b; }

// A grid's x side ends at 2^31 - 1 blocks; every kernel strides over its tasks, so a shorter grid is still right.
inline unsigned grid_for(long long tasks) { return static_cast<unsigned>(std::min<long long>(tasks, INT_MAX)); }

// Calls `f` with x typed as the convolution says.
template <typename F>
fops_status with_input(const fops_conv& c, const void* x, F f) {
  return c.x_type == FOPS_UINT8 ? f(static_cast<const uint8_t*>(x)) : f(static_cast<const float*>(x));
}

// More than 48 KB of shared memory has to be asked for, and a GPU may have less (64 KB on sm_75, 99 on sm_86, 227 on
// sm_90): then the line names the need.
template <typename Kernel>
fops_status allow_shared(Kernel kernel, size_t bytes) {
  if (bytes <= 48 * 1024) return FOPS_OK;
  int device = 0, limit = 0;
  FOPS_CUDA(cudaGetDevice(&device));
  FOPS_CUDA(cudaDeviceGetAttribute(&limit, cudaDevAttrMaxSharedMemoryPerBlockOptin, device));
  if (bytes > static_cast<size_t>(limit))
    return fail(FOPS_UNSUPPORTED, "this kernel needs %zu bytes of shared memory a block for this shape, the GPU has %d",
                bytes, limit);
  FOPS_CUDA(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, static_cast<int>(bytes)));
  return FOPS_OK;
}

// As many blocks as the device holds at once: for kernels whose blocks stay and walk over the tasks.
template <typename Kernel>
fops_status resident_grid(Kernel kernel, int threads, size_t shared, long long tasks, unsigned* grid) {
  int device = 0, multiprocessors = 0, blocks = 0;
  FOPS_CUDA(cudaGetDevice(&device));
  FOPS_CUDA(cudaDeviceGetAttribute(&multiprocessors, cudaDevAttrMultiProcessorCount, device));
  FOPS_CUDA(cudaOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, kernel, threads, shared));
  *grid = static_cast<unsigned>(std::min<long long>(tasks, std::max(1, blocks) * 1LL * multiprocessors));
  return FOPS_OK;
}

}  // namespace fops
