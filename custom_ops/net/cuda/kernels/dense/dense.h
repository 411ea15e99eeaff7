// A dense layer on a CUDA device at float32 grade on the matrix units: y = activation(x w^T + bias), with every float32
// operand as the sum of two half-precision numbers. Internal to the CUDA executor.
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
  int64_t filters = 0;             // 0: inputs are (C, H, W), as in the plan; else (H, W, C) with this many channels
  const __half* hi = nullptr;      // (units, dense_stride(inputs)), zeros after `inputs`
  const __half* lo = nullptr;
  const float* unscale = nullptr;  // (units): a power of two; before the split the weights were divided by it
  const float* bias = nullptr;     // (units), or null
  const float* least = nullptr;    // (units): minimum for an output, see Doubts
};

// Outputs that halves may not carry. A scaled value of x or w below 1/2 is off by up to 2^-25, where its low half ends.
// Beside larger terms that is negligible; it counts if the whole sum is small. With n inputs the lost parts add up to
// at most 2^-25 x_unscale * least, where
//
//     least = sum |w| + 2^14 * unscale * (weights that are below 1/2 once scaled, and not zero)
//
// because |x| is at most 2^14 x_unscale. Half of the sqrt(n) units of 2^-24 that the bound allows (docs/precision.md)
// covers them where |y| is x_unscale * least / sqrt(n) or more. Other outputs get their bit here, and recompute.cu
// checks them again: 62 of a million sums of 7,200 random activations and weights.
struct Doubts {
  unsigned* bits = nullptr;  // (n, words), or null if not needed
  int words = 0;             // per row

  __device__ void raise(long long row, long long unit) const {
    if (bits != nullptr) atomicOr(bits + row * words + unit / 32, 1u << unit % 32);
  }
};
inline int64_t doubt_words(int64_t units) { return (units + 31) / 32; }
// The factor that `least` is multiplied by.
float least_share(int64_t inputs, float x_unscale);

// The number of bytes that pack_dense needs; and pack_dense itself: `w` (units, inputs) and `bias` are float32 on the
// device, and `filters` is as in DenseWeights. `memory`, x_hi and x_lo begin on 16-byte boundaries, as cudaMalloc's
// results do.
size_t dense_weight_bytes(int64_t units, int64_t inputs);
fops_status pack_dense(int64_t units, int64_t inputs, int64_t filters, const float* w, const float* bias,
                       void* memory, DenseWeights* out, cudaStream_t stream);

// Bytes of workspace for up to n rows (partial sums if blocks share a sum); may be 0.
size_t dense_workspace_bytes(const DenseWeights& weights, int64_t n);

// y (n, units) float32. x = (x_hi + x_lo) * x_unscale, each (n, dense_stride(inputs)) with zeros after `inputs`.
// A row's y is the same to the last digit whatever n is, and on every run.
// `products`: 3 for float32 grade (hi hi, hi lo, lo hi), 1 for plain half precision (x_lo may then be null).
fops_status dense(const DenseWeights& weights, int64_t n, const __half* x_hi, const __half* x_lo, float x_unscale,
                  Activation activation, int products, const Doubts& doubts, float* y, void* workspace,
                  cudaStream_t stream);

}  // namespace fops
