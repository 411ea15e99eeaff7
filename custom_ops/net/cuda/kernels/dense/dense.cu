// The dense layer on CUDA: packing the weights, choosing the kernel, and adding partial sums over chunks of inputs.
//
// Each float32 operand is split into two half-precision values, hi + lo, which keep 22 or more of its 24 bits. Three
// products of halves on the matrix units replace one product in float32 (gpu/isa/halves.cuh). hopper.cu has the kernel
// for Hopper, general.cu the kernel for other GPUs. kernels.h says why a row's result does not depend on the number of
// rows.
#include <cmath>

#include "gpu/isa/dependents.cuh"
#include "gpu/isa/halves.cuh"
#include "gpu/largest.cuh"
#include "net/cuda/kernels/dense/kernels.h"

namespace fops {
namespace {

// With up to this number of rows, several blocks divide the chunks of inputs among them. fa2017's layer then has at
// most 29 MB of partial sums, which stay in L2.
constexpr int64_t kMostSplitRows = 128;

constexpr int kPackThreads = 256;

// Returns the sum of a block's values, always added in the same order. All threads of the block call this function
// once.
__device__ float block_sum(float value, float* scratch) {
  for (int offset = 16; offset > 0; offset /= 2) value += __shfl_xor_sync(0xffffffffu, value, offset);
  if (threadIdx.x % 32 == 0) scratch[threadIdx.x / 32] = value;
  __syncthreads();
  float sum = 0.0f;
  for (int warp = 0; warp < kPackThreads / 32; ++warp) sum += scratch[warp];
  return sum;
}

// Packs the weights of one unit per block: scales them by the power of two that brings the largest into [2^13, 2^14),
// and splits them into hi and lo. Also writes the unit's `unscale`, `least` (see Doubts) and bias. `least` is infinite,
// so that all outputs are in doubt, for weights that cannot be split (infinite, NaN or beyond any scale). `filters`: as
// in DenseWeights, but 1 instead of 0.
__global__ void __launch_bounds__(kPackThreads)
    split_weights(long long inputs, long long stride, unsigned filters, const float* w, const float* bias, __half* hi,
                  __half* lo, float* unscale, float* bias_copy, float* least) {
  __shared__ unsigned scratch;
  __shared__ float sums[kPackThreads / 32];
  const long long unit = blockIdx.x;
  const float* row = w + unit * inputs;
  float largest = 0.0f;
  for (long long i = threadIdx.x; i < inputs; i += kPackThreads) largest = larger(largest, row[i]);
  largest = block_max(largest, &scratch);
  const float scale = scale_for(fminf(largest, 3.4e38f));
  float sum = 0.0f, small = 0.0f;
  for (long long i = threadIdx.x; i < stride; i += kPackThreads) {
    const unsigned at = static_cast<unsigned>(i);  // below 2^31
    const long long from = at % filters * (inputs / filters) + at / filters;
    const float scaled = i < inputs ? row[from] * scale : 0.0f;
    const Split halves = split(scaled);
    sum += fabsf(scaled);
    if (scaled != 0.0f && fabsf(scaled) < 0.5f) small += 1.0f;
    hi[unit * stride + i] = halves.hi;
    lo[unit * stride + i] = halves.lo;
  }
  sum = block_sum(sum + 0x1p14f * small, sums);
  if (threadIdx.x == 0) {
    unscale[unit] = 1.0f / scale;
    least[unit] = largest < kLargestScaled ? sum / scale : INFINITY;
    if (bias != nullptr) bias_copy[unit] = bias[unit];
  }
}

__device__ void finish(const DenseEpilogue& epilogue, float sum, long long row, long long unit, float* y) {
  const UnitEpilogue own = epilogue.of(unit);
  *y = own(sum);
  if (own.doubtful(sum)) epilogue.doubts.raise(row, unit);
}

// Computes y from up to kFewSums partial sums per output, `segment` of them per segment (kernels.h). A thread computes
// kWide neighbouring outputs, and all its loads are in flight before the first addition.
constexpr int kFewSums = 8, kFewThreads = 256;

template <int kWide>
struct alignas(4 * kWide) Outputs {
  float at[kWide];
};

template <int kWide>
__global__ void __launch_bounds__(kFewThreads) add_few(long long n, long long units, int count, int segment,
                                                       const float* partial, DenseEpilogue epilogue, float* y) {
  wait_for_previous_kernel();
  const long long at = (blockIdx.x * 1LL * kFewThreads + threadIdx.x) * kWide, all = n * units;
  if (at >= all) return;
  const long long row = all <= UINT_MAX ? static_cast<unsigned>(at) / static_cast<unsigned>(units) : at / units;
  Outputs<kWide> sums[kFewSums], out;
#pragma unroll
  for (int i = 0; i < kFewSums; ++i)
    if (i < count) sums[i] = *reinterpret_cast<const Outputs<kWide>*>(partial + i * all + at);
#pragma unroll
  for (int e = 0; e < kWide; ++e) {
    float total = 0.0f, sum = 0.0f;
#pragma unroll
    for (int i = 0; i < kFewSums; ++i) {
      if (i < count) sum += sums[i].at[e];
      if ((i + 1) % segment == 0) total += sum, sum = 0.0f;
    }
    finish(epilogue, total + sum, row, at - row * units + e, out.at + e);
  }
  *reinterpret_cast<Outputs<kWide>*>(y + at) = out;
}

// Computes y from any number of partial sums per output. 16 threads load the sums of an output into shared memory. Then
// one thread adds them in order, because the order of additions determines the last digits. This is slow for many
// outputs with few sums each (1.4 million outputs take 43,750 blocks), for which there is add_few.
constexpr int kAddUnits = 32, kAddLanes = 16, kAddDeep = 256;

__global__ void __launch_bounds__(kAddUnits* kAddLanes)
    add_partial(long long n, long long units, int count, int segment, const float* partial, DenseEpilogue epilogue,
                float* y) {
  wait_for_previous_kernel();
  __shared__ float sums[kAddDeep][kAddUnits];
  const int column = threadIdx.x % kAddUnits, lane = threadIdx.x / kAddUnits;
  const long long at = blockIdx.x * 1LL * kAddUnits + column, all = n * units;
  float total = 0.0f, sum = 0.0f;
  for (int first = 0; first < count; first += kAddDeep) {
    const int here = min(kAddDeep, count - first);
#pragma unroll 4
    for (int i = lane; i < here; i += kAddLanes)
      sums[i][column] = at < all ? __ldcs(partial + (first + i) * all + at) : 0.0f;
    __syncthreads();
    if (lane == 0)
#pragma unroll 8
      for (int i = 0; i < here; ++i) {
        sum += sums[i][column];
        if ((first + i + 1) % segment == 0) total += sum, sum = 0.0f;
      }
    __syncthreads();
  }
  if (lane == 0 && at < all) finish(epilogue, total + sum, at / units, at % units, y + at);
}

// The packed weights are the arrays hi, lo, unscale, bias and least, each on a 256-byte boundary, which satisfies TMA
// and 16-byte loads. Layout has the offsets of the arrays after hi, and the size of all, in bytes.
size_t aligned(int64_t bytes) { return static_cast<size_t>(ceil_div(bytes, 256) * 256); }

struct Layout {
  size_t lo, unscale, bias, least, bytes;
};
Layout layout(int64_t units, int64_t inputs) {
  const size_t halves = aligned(units * dense_stride(inputs) * 2), floats = aligned(units * 4);
  return {halves, 2 * halves, 2 * halves + floats, 2 * halves + 2 * floats, 2 * halves + 3 * floats};
}

fops_status check_sizes(int64_t units, int64_t inputs) {
  if (units < 1 || inputs < 1 || units > INT_MAX - 1024 || inputs > INT_MAX - 1024)
    return fail(FOPS_INVALID, "a dense layer of %lld units and %lld inputs", static_cast<long long>(units),
                static_cast<long long>(inputs));
  return FOPS_OK;
}

}  // namespace

float least_share(int64_t inputs, float x_unscale) {
  return static_cast<float>(x_unscale / std::sqrt(static_cast<double>(inputs)));
}

size_t dense_weight_bytes(int64_t units, int64_t inputs) { return layout(units, inputs).bytes; }

fops_status pack_dense(int64_t units, int64_t inputs, int64_t filters, const float* w, const float* bias, void* memory,
                       DenseWeights* out, cudaStream_t stream) {
  FOPS_TRY(check_sizes(units, inputs));
  const Layout at = layout(units, inputs);
  char* bytes = static_cast<char*>(memory);
  __half *hi = reinterpret_cast<__half*>(bytes), *lo = reinterpret_cast<__half*>(bytes + at.lo);
  float *unscale = reinterpret_cast<float*>(bytes + at.unscale), *copy = reinterpret_cast<float*>(bytes + at.bias);
  float* least = reinterpret_cast<float*>(bytes + at.least);
  split_weights<<<static_cast<unsigned>(units), kPackThreads, 0, stream>>>(
      inputs, dense_stride(inputs), static_cast<unsigned>(std::max<int64_t>(filters, 1)), w, bias, hi, lo, unscale,
      copy, least);
  FOPS_TRY(launched("dense layer's split of the weights"));
  *out = {units, inputs, filters, hi, lo, unscale, bias != nullptr ? copy : nullptr, least};
  return FOPS_OK;
}

size_t dense_workspace_bytes(const DenseWeights& weights, int64_t n) {
  const int64_t chunks = ceil_div(dense_stride(weights.inputs), kChunk);
  const int64_t segments = std::min<int64_t>(chunks, dense_segments_hopper(weights));
  return static_cast<size_t>(std::max(chunks * std::min(n, kMostSplitRows), segments > 1 ? segments * n : 0) *
                             weights.units * 4);
}

fops_status dense(const DenseWeights& weights, int64_t n, const __half* x_hi, const __half* x_lo, float x_unscale,
                  Activation activation, int products, const Doubts& doubts, float* y, void* workspace,
                  cudaStream_t stream) {
  FOPS_TRY(check_sizes(weights.units, weights.inputs));
  if (n == 0) return FOPS_OK;
  if (n < 0 || n > INT_MAX - 1024) return fail(FOPS_INVALID, "a dense layer of %lld rows", static_cast<long long>(n));
  if (products != 1 && products != 3) return fail(FOPS_INVALID, "a dense layer of %d products", products);
  int multiprocessors = 0;
  FOPS_TRY(count_sms(&multiprocessors));
  bool hopper = false;
  FOPS_TRY(dense_hopper_usable(weights, &hopper));

  DenseCall call{weights,   n,
                 x_hi,      products == 3 ? x_lo : x_hi,
                 x_unscale, activation,
                 products,  doubts,
                 y,         multiprocessors,
                 1,         false,
                 nullptr,   stream};
  const auto divide = [&](int parts) {  // sets call.parts to at most `parts`, such that no part is without chunks
    call.parts = std::max(1, std::min(parts, call.chunks()));
    call.parts = static_cast<int>(ceil_div(call.chunks(), call.chunks_a_part()));
  };
  divide(hopper ? dense_segments_hopper(weights) : 1);
  int segment = call.chunks_a_part();
  if (n <= kMostSplitRows && call.chunks() > 1) {
    divide((hopper ? dense_parts_hopper : dense_parts_general)(weights, n, multiprocessors));
    call.every_chunk = call.parts > 1 || segment < call.chunks();
  }
  const bool apart = call.every_chunk || call.parts > 1;
  if (apart && workspace == nullptr) return fail(FOPS_INVALID, "a dense layer without its workspace");
  if (apart) call.partial = static_cast<float*>(workspace);
  FOPS_TRY((hopper ? dense_hopper : dense_general)(call));
  if (!apart) return FOPS_OK;
  const int count = call.every_chunk ? call.chunks() : call.parts;
  if (!call.every_chunk) segment = 1;
  const int64_t outputs = n * weights.units;
  const bool few = count <= kFewSums, wide = weights.units % 4 == 0 && reinterpret_cast<uintptr_t>(y) % 16 == 0;
  const auto add = few ? wide ? add_few<4> : add_few<1> : add_partial;
  const int threads = few ? kFewThreads : kAddUnits * kAddLanes,
            a_block = few ? kFewThreads * (wide ? 4 : 1) : kAddUnits;
  FOPS_TRY(launch_early(add, grid_for(ceil_div(outputs, a_block)), 1, threads, 0, stream, n, weights.units, count,
                        segment, call.partial, epilogue(call), y));
  return launched("dense layer's sum of partial sums");
}

}  // namespace fops
