// Declarations shared by dense.cu and its two kernels. Internal to the dense layer.
//
// On one device, the order in which an output's products are added depends on the layer alone, never on the number of
// rows or the grid. The inputs are cut into chunks of kChunk, and the chunks into a fixed number of segments, mostly
// one. The matrix units add a chunk's products, beginning at zero. The sums of a segment's chunks are added in order in
// float32; then the sums of the segments are added in order. One block may process all chunks, or one block each
// segment, or many blocks may store each chunk's sums for a second kernel (add_partial, add_few): the result is the
// same to the last digit. So an image's result does not depend on its batch.
#pragma once

#include "gpu/launch.h"
#include "net/cuda/kernels/dense/dense.h"

namespace fops {

// Number of inputs per chunk. Tensor cores truncate as they accumulate, so the magnitude of a sum shrinks a little with
// every addition; the chunks' sums are added by ordinary instructions, which round.
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
  int parts;         // number of parts, of successive chunks, into which the inputs are divided among blocks
  bool every_chunk;  // whether each chunk's sums are stored separately; otherwise each part's
  float* partial;    // where sums are stored: (chunks or parts, n, units); null if there is one part, which writes y
  cudaStream_t stream;

  int64_t stride() const { return dense_stride(weights.inputs); }
  int chunks() const { return static_cast<int>(ceil_div(stride(), kChunk)); }
  int chunks_a_part() const { return static_cast<int>(ceil_div(chunks(), parts)); }
};

// The epilogue of one unit's sums: scale, bias and activation. All kernels use it.
struct UnitEpilogue {
  float unscale, x_unscale, bias, least;
  bool biased;
  Activation activation;

  __device__ float before_activation(float sum) const {
    const float v = sum * unscale * x_unscale;  // from left to right: unscale * x_unscale may overflow
    return biased ? v + bias : v;
  }
  __device__ float operator()(float sum) const {
    const float v = before_activation(sum);
    if (activation == Activation::tanh) return tanhf(v);
    return activation == Activation::relu && v < 0.0f ? 0.0f : v;  // NaN stays NaN
  }
  // Whether this output must be flagged in Doubts. True for NaN.
  __device__ bool doubtful(float sum) const { return !(fabsf(before_activation(sum)) >= least); }
};

struct DenseEpilogue {
  long long units;
  const float *unscale, *bias, *least;
  float x_unscale, share;
  Activation activation;
  Doubts doubts;

  // Returns the epilogue of a unit. For a unit past the last one, whose sums are not stored, it has the last unit's
  // factors and a minimum that no sum falls below.
  __device__ UnitEpilogue of(long long unit) const {
    const bool biased = bias != nullptr, asked = doubts.bits != nullptr && unit < units;
    unit = min(unit, units - 1);
    return {__ldg(unscale + unit),
            x_unscale,
            biased ? __ldg(bias + unit) : 0.0f,
            asked ? __ldg(least + unit) * share : -1.0f,
            biased,
            activation};
  }
};
inline DenseEpilogue epilogue(const DenseCall& call) {
  const DenseWeights& w = call.weights;
  return {w.units,         w.unscale,  w.bias, w.least, call.x_unscale, least_share(w.inputs, call.x_unscale),
          call.activation, call.doubts};
}

// The kernel for any GPU from sm_75 on. dense_parts_general returns the number of parts for few rows.
int dense_parts_general(const DenseWeights&, int64_t n, int multiprocessors);
fops_status dense_general(const DenseCall&);

// The kernel for Hopper. *usable receives whether this build and this device have it, and the layer has more than 64
// units. dense_parts_hopper returns the number of parts for few rows.
fops_status dense_hopper_usable(const DenseWeights&, bool* usable);
int dense_segments_hopper(const DenseWeights&);
int dense_parts_hopper(const DenseWeights&, int64_t n, int multiprocessors);
fops_status dense_hopper(const DenseCall&);

}  // namespace fops
