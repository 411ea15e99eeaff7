// Recomputes the items that half precision may not represent well enough: the whole network without tensor cores, with
// convolutions and dense layers summed in double.
//
//   block b     examines items b, b + grid, ...: the bits that their dense layers have set (Doubts)
//     warp      takes one set bit: adds |x| |w|, 256 inputs at a time, until the sum is large enough to rule out doubt
//     block     recomputes an item for which such a sum stays too small: stage by stage, from the original weights
//
// All values of a tensor of halves have the same scale. If an item's values are far below the range of that scale, or
// are multiplied with weights far below the unit's other weights, the item may lose more bits than the bound of
// docs/precision.md allows. Whether an item is recomputed depends on that item alone, not on its batch.
// Costs: reading the bits (0.6 MB for 10,000 items of 500 units), even if no item is recomputed.
#include "gpu/isa/dependents.cuh"
#include "gpu/launch.h"
#include "net/cuda/kernels/activate.cuh"
#include "net/cuda/kernels/recompute.h"
#include "net/cuda/kernels/stages.h"

namespace fops {
namespace {

constexpr int kThreads = 256, kWarps = kThreads / 32;

__device__ double warp_sum(double value) {
  for (int offset = 16; offset > 0; offset /= 2) value += __shfl_xor_sync(0xffffffffu, value, offset);
  return value;
}

// Whether the terms of an output's sum are so large that the bits lost in half precision are negligible. All threads of
// a warp call this function.
__device__ bool beyond_doubt(const DoubtfulLayer& layer, long long item, int unit) {
  const float least = layer.least[unit] * layer.share * 1.01f;  // 1%: the high parts alone are off by up to 0.1%
  if (!(least < INFINITY)) return false;
  const __half2* x = reinterpret_cast<const __half2*>(layer.x + item * layer.row);
  const __half2* w = reinterpret_cast<const __half2*>(layer.w + 1LL * unit * layer.row);
  const int pairs = layer.row / 2, lane = threadIdx.x % 32, chunk = 32 * 4;
  const float unscale = layer.unscale[unit];
  float sum = layer.bias == nullptr ? 0.0f : fabsf(layer.bias[unit]);
  const int begin = pairs / chunk / 2 * chunk;  // starts in the middle, because an image's border may be blank
  for (int at = 0; at < pairs; at += chunk) {
    float some = 0.0f;
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const int pair = (begin + at + 32 * i + lane) % pairs;
      const float2 a = __half22float2(x[pair]), b = __half22float2(w[pair]);
      if (at + 32 * i + lane < pairs) some += fabsf(a.x * b.x) + fabsf(a.y * b.y);
    }
    for (int offset = 16; offset > 0; offset /= 2) some += __shfl_xor_sync(0xffffffffu, some, offset);
    sum += some * unscale * layer.x_unscale;
    if (sum >= least) return true;
  }
  return sum >= least;
}

__device__ long long item_at(int i) { return blockIdx.x + 1LL * i * gridDim.x; }

// Marks in r.again those of this block's items that have an output for which doubt is not ruled out, and clears the
// items' bits. Returns whether this thread's warp marked an item.
__device__ bool find(const Recompute& r, const DoubtfulLayer& layer, int items) {
  constexpr int kAtOnce = 6;  // number of words of bits that a thread loads together
  const int words = layer.doubts.words, count = items * words, lane = threadIdx.x % 32;
  bool found = false;
  for (int first = threadIdx.x / 32 * 32; first < count; first += kAtOnce * kThreads) {
    unsigned bits[kAtOnce], any = 0;
#pragma unroll
    for (int i = 0; i < kAtOnce; ++i) {
      const int own = first + i * kThreads + lane;
      bits[i] = own < count ? layer.doubts.bits[item_at(own / words) * words + own % words] : 0;
      any |= bits[i];
    }
    if (!__any_sync(0xffffffffu, any != 0)) continue;
#pragma unroll
    for (int i = 0; i < kAtOnce; ++i) {
      const int base = first + i * kThreads, own = base + lane;
      if (bits[i] != 0) layer.doubts.bits[item_at(own / words) * words + own % words] = 0;
      for (unsigned lanes = __ballot_sync(0xffffffffu, bits[i] != 0); lanes != 0; lanes &= lanes - 1) {
        const int at = base + __ffs(lanes) - 1;
        volatile unsigned* const again = r.again + item_at(at / words);
        for (unsigned left = __shfl_sync(0xffffffffu, bits[i], at - base); left != 0; left &= left - 1) {
          if (*again != 0) break;
          if (beyond_doubt(layer, item_at(at / words), at % words * 32 + __ffs(left) - 1)) continue;
          found = true;
          if (lane == 0) *again = 1;
          __syncwarp();
        }
      }
    }
  }
  return found;
}

template <typename X>
__device__ float value_at(const PlainStage& s, const X* x, int unit, int h, int w) {
  if (s.kind == Stage::Kind::map) return static_cast<float>(x[(1LL * unit * s.H + h) * s.W + w]);
  const float* k = s.w + 1LL * unit * s.C * s.K * s.K;
  double sum = 0.0;
  for (int c = 0; c < s.C; ++c)
    for (int p = 0; p < s.K; ++p) {
      const X* row = x + (1LL * c * s.H + h + p) * s.W + w;
      for (int q = 0; q < s.K; ++q) sum = fma(static_cast<double>(row[q]), static_cast<double>(*k++), sum);
    }
  return static_cast<float>(sum);
}

template <typename X>
__device__ void image_stage(const PlainStage& s, const X* x, float* y) {
  const int rows = s.H - s.K + 1, columns = s.W - s.K + 1;  // size of the convolution's output before the pool
  for (int i = threadIdx.x; i < s.units * s.OH * s.OW; i += kThreads) {
    const int unit = i / (s.OH * s.OW), place = i - unit * s.OH * s.OW;
    const int top = place / s.OW * s.stride, left = place % s.OW * s.stride;
    float v = value_at(s, x, unit, top, left);
    for (int p = 0; p < min(s.size, rows - top); ++p)  // the border cuts the last windows
      for (int q = 0; q < min(s.size, columns - left); ++q)
        if (p + q > 0) v = max_or_nan(v, value_at(s, x, unit, top + p, left + q));
    y[i] = activate(s.activation, v);
  }
}

template <typename X>
__device__ void dense_stage(const PlainStage& s, const X* x, float* y) {
  const int inputs = s.C * s.H * s.W, lane = threadIdx.x % 32;
  for (int unit = threadIdx.x / 32; unit < s.units; unit += kWarps) {
    const float* w = s.w + 1LL * unit * inputs;
    double sum = 0.0;
#pragma unroll 4
    for (int i = lane; i < inputs; i += 32) sum = fma(static_cast<double>(x[i]), static_cast<double>(w[i]), sum);
    sum = warp_sum(sum);
    if (s.bias != nullptr) sum += s.bias[unit];
    if (lane == 0) y[unit] = activate(s.activation, static_cast<float>(sum));
  }
}

template <typename X>
__device__ void softmax_stage(const PlainStage& s, const X* x, float* y) {
  const int size = s.C * s.H * s.W;
  float largest = -INFINITY, total = 0.0f;
  for (int i = 0; i < size; ++i) largest = fmaxf(largest, static_cast<float>(x[i]));
  for (int i = 0; i < size; ++i) total += expf(static_cast<float>(x[i]) - largest);
  for (int i = threadIdx.x; i < size; i += kThreads) y[i] = expf(static_cast<float>(x[i]) - largest) / total;
}

template <typename X>
__device__ void run_stage(const PlainStage& s, const X* x, float* y) {
  switch (s.kind) {
    case Stage::Kind::convolution:
    case Stage::Kind::map: image_stage(s, x, y); break;
    case Stage::Kind::dense: dense_stage(s, x, y); break;
    case Stage::Kind::softmax: softmax_stage(s, x, y); break;
  }
  __syncthreads();
}

template <typename X>
__global__ void __launch_bounds__(kThreads)
    recompute(const __grid_constant__ Recompute r, long long n, const X* __restrict__ data, float* __restrict__ out) {
  const int items = static_cast<int>((n - blockIdx.x + gridDim.x - 1) / gridDim.x);
  bool found = false;
  if (!r.ahead) wait_for_previous_kernel();
  for (int i = 0; i < r.layer_count; ++i) found |= find(r, r.layers[i], items);
  wait_for_previous_kernel();  // even if nothing is found, because the next kernel waits only for this one
  if (!__syncthreads_or(found)) return;
  const long long in_size = 1LL * r.stages[0].C * r.stages[0].H * r.stages[0].W;
  __shared__ unsigned again[kThreads];
  for (int base = 0; base < items; base += kThreads) {
    const int own = base + static_cast<int>(threadIdx.x);
    unsigned* const flag = r.again + item_at(own);
    const unsigned marked = own < items ? *flag : 0;
    if (!__syncthreads_or(marked)) continue;
    again[threadIdx.x] = marked;
    if (marked) *flag = 0;
    __syncthreads();
    for (int i = 0; i < min(kThreads, items - base); ++i) {
      if (!again[i]) continue;
      const long long item = item_at(base + i);
      float* from = r.scratch + 2 * blockIdx.x * r.largest;
      float* to = from + r.largest;
      for (int stage = 0; stage < r.stage_count; ++stage) {
        float* const target = stage + 1 < r.stage_count ? to : out + item * r.out_size;
        if (stage == 0)
          run_stage(r.stages[stage], data + item * in_size, target);
        else
          run_stage(r.stages[stage], static_cast<const float*>(from), target);
        float* const read = from;
        from = to, to = read;
      }
    }
    __syncthreads();
  }
}

}  // namespace

fops_status run_recompute(const Recompute& r, int64_t n, const Tensor& data, float* out, cudaStream_t stream) {
  const unsigned blocks = static_cast<unsigned>(std::min<int64_t>(n, r.blocks));
  if (data.form == Tensor::Form::uint8)
    FOPS_TRY(launch_early(recompute<uint8_t>, blocks, 1, kThreads, 0, stream, r, n,
                          static_cast<const uint8_t*>(data.data), out));
  else
    FOPS_TRY(launch_early(recompute<float>, blocks, 1, kThreads, 0, stream, r, n, static_cast<const float*>(data.data),
                          out));
  return launched("the items in doubt");
}

}  // namespace fops
