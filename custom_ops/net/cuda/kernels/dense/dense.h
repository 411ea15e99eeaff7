// A dense layer on the matrix units of a CUDA device with float32 accuracy: y = activation(x w^T + bias), with each float32
// operand split into two half-precision numbers. Internal to the CUDA executor.
#pragma once

#include <cuda_fp16.h>

#include <cstddef>
#include <cstdint>

#include "gpu/check.h"
#include "net/plan.h"

namespace fops {

// Rows of activations and of weights are padded with zeros to a multiple of this number of values.
constexpr int64_t kDenseAlign = 64;
inline int64_t dense_stride(int64_t inputs) { return (inputs + kDenseAlign - 1) / kDenseAlign * kDenseAlign; }

// A layer's weights on the device, laid out once by pack_dense.
struct DenseWeights {
  int64_t units = 0, inputs = 0;
  int64_t filters = 0;         // 0: inputs are ordered (C, H, W), as in the plan; else (H, W, C) with C = filters
  const __half* hi = nullptr;  // (units, dense_stride(inputs)), zeros after `inputs`
  const __half* lo = nullptr;
  const float* unscale = nullptr;  // (units): a power of two; before the split the weights were divided by it
  const float* bias = nullptr;     // (units), or null
  const float* least = nullptr;    // (units): minimum for an output, see Doubts
};

// Flags for outputs that the splits into halves may have made too inaccurate. A scaled value of x or w below 1/2 is off
// by up to 2^-25 after its split. This error is negligible beside larger terms of the sum, but matters if the whole sum
// is small. The errors of a sum add up to at most 2^-25 x_unscale * least, where
//
//     least = sum |w| + 2^14 * unscale * (number of nonzero weights that are below 1/2 once scaled)
//
// because |x| is at most 2^14 x_unscale. The bound of docs/precision.md allows sqrt(n) units of 2^-24 for n inputs.
// Half of that covers these errors if |y| is at least x_unscale * least / sqrt(n). The bits of other outputs are set
// here, and recompute.cu examines these outputs: 62 of a million sums of 7,200 random activations and weights.
struct Doubts {
  unsigned* bits = nullptr;  // (n, words), or null if not needed
  int words = 0;             // number of 32-bit words per row

  __device__ void raise(long long row, long long unit) const {
    if (bits != nullptr) atomicOr(bits + row * words + unit / 32, 1u << unit % 32);
  }
};
inline int64_t doubt_words(int64_t units) { return (units + 31) / 32; }
// Returns x_unscale / sqrt(inputs). This factor times `least` is the minimum magnitude of an output that is not in
// doubt.
float least_share(int64_t inputs, float x_unscale);

size_t dense_weight_bytes(int64_t units, int64_t inputs);
// Packs a layer's weights into `memory`, and sets *out. `w` (units, inputs) and `bias` are float32 on the device;
// `filters` is as in DenseWeights. `memory` begins on a 16-byte boundary, as cudaMalloc's results do.
fops_status pack_dense(int64_t units, int64_t inputs, int64_t filters, const float* w, const float* bias, void* memory,
                       DenseWeights* out, cudaStream_t stream);

// Returns the bytes of workspace that dense() needs for up to n rows, for partial sums; may be 0.
size_t dense_workspace_bytes(const DenseWeights& weights, int64_t n);

// Computes y (n, units), float32, for x = (x_hi + x_lo) * x_unscale. x_hi and x_lo are (n, dense_stride(inputs)) with
// zeros after `inputs`, and begin on 16-byte boundaries. A row's y is the same to the last digit for any n, and in
// every run. `products`: 3 for float32 accuracy (hi hi, hi lo, lo hi), 1 for plain half precision (x_lo may then be null).
fops_status dense(const DenseWeights& weights, int64_t n, const __half* x_hi, const __half* x_lo, float x_unscale,
                  Activation activation, int products, const Doubts& doubts, float* y, void* workspace,
                  cudaStream_t stream);

}  // namespace fops
