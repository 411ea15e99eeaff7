// Declarations shared by dense.cu and its two kernels. Internal to the dense layer.
//
// The order in which an output's products are summed depends on the layer alone, never on the number of rows or the
// grid: `inputs` is cut into chunks of kChunk, and the chunks into a layer's fixed number of segments, mostly one. A
// chunk is summed by the matrix units from zero; a segment's chunks are added in order in float32; so are the segments.
// One block may process all chunks, or one block per segment, or many blocks that leave each chunk's sums for a second
// kernel (add_partial): the digits are the same. So an image's result does not depend on its batch.
#pragma once

#include "gpu/launch.h"
#include "net/cuda/kernels/dense/dense.h"

namespace fops {

// Tensor cores truncate as they accumulate, so every addition shrinks a sum a little; the chunks' sums are added by
// ordinary, rounding instructions. On Hopper, random data, the outputs are too small by a relative 5e-8 with chunks of
// 64, 1.7e-7 with 128 and 3.8e-7 with 256; 128 would be 2 % faster.
constexpr int kChunk = 64;

struct DenseCall {
  DenseWeights weights;
  int64_t n;
  const __half *x_hi, *x_lo;
  float x_unscale;
  Activation activation;
  int products;  // 3 or 1
  Doubts doubts;
  float* y;
  int multiprocessors;
  int parts;         // blocks along `inputs`, which take chunks in turn
  bool every_chunk;  // whether each chunk's sums are stored separately; otherwise each part's
  float* partial;    // the destination (chunks or parts, n, units); null if there is one part, which writes y
  cudaStream_t stream;

  int64_t stride() const { return dense_stride(weights.inputs); }
  int chunks() const { return static_cast<int>(ceil_div(stride(), kChunk)); }
  int chunks_a_part() const { return static_cast<int>(ceil_div(chunks(), parts)); }
};

// The epilogue of a unit's sums, which is the same in every kernel.
struct UnitEpilogue {
  float unscale, x_unscale, bias, least;
  bool biased;
  Activation activation;

  __device__ float before_activation(float sum) const {
    const float v = sum * unscale * x_unscale;  // powers of two, applied one by one: their product may overflow
    return biased ? v + bias : v;
  }
  __device__ float operator()(float sum) const {
    const float v = before_activation(sum);
    if (activation == Activation::tanh) return tanhf(v);
    return activation == Activation::relu && v < 0.0f ? 0.0f : v;  // NaN stays NaN
  }
  // Whether this output must be flagged for another computation (see Doubts). True for NaN.
  __device__ bool doubtful(float sum) const { return !(fabsf(before_activation(sum)) >= least); }
};

struct DenseEpilogue {
  long long units;
  const float *unscale, *bias, *least;
  float x_unscale, share;
  Activation activation;
  Doubts doubts;

  // A unit past the last one has the last unit's factors and no minimum: its sums are not stored.
  __device__ UnitEpilogue of(long long unit) const {
    const bool biased = bias != nullptr, asked = doubts.bits != nullptr && unit < units;
    unit = min(unit, units - 1);
    return {__ldg(unscale + unit), x_unscale, biased ? __ldg(bias + unit) : 0.0f,
            asked ? __ldg(least + unit) * share : -1.0f, biased, activation};
  }
};
inline DenseEpilogue epilogue(const DenseCall& call) {
  const DenseWeights& w = call.weights;
  return {w.units,         w.unscale,   w.bias, w.least, call.x_unscale, least_share(w.inputs, call.x_unscale),
          call.activation, call.doubts};
}

// The kernel for any GPU from sm_75 on.
int dense_parts_general(const DenseWeights&, int64_t n, int multiprocessors);
fops_status dense_general(const DenseCall&);

// The kernel for Hopper. `usable` says whether this build and this device have it.
fops_status dense_hopper_usable(const DenseWeights&, bool* usable);
int dense_segments_hopper(const DenseWeights&);
int dense_parts_hopper(const DenseWeights&, int64_t n, int multiprocessors);
fops_status dense_hopper(const DenseCall&);

}  // namespace fops
