// 1x1 filters over many channels: a matrix product with one operand in registers.
//
//   A: filters x channels, registers      B: channels x positions, shared memory      D: filters x positions
//   a warp: 16 filters, all channels   x  a task: some positions of an image       =  16 x 16 at a time
//
// The pixels of a task are split into halves once. Then a lane reads 16 bytes per mma step, which are the high and low
// parts that the step needs. The kernel also splits the weights, so that a call is one launch.
// Costs: the weights of 128 channels take 64 registers per lane; layers with more channels run any_shape.cu.
// Gains: any_shape.cu needs a second launch to split the weights.
#include "conv/hopper/fallback.cuh"
#include "conv/hopper/scheduler.cuh"
#include "conv/hopper/split.cuh"
#include "conv/hopper/variants.h"
#include "conv/hopper/variants/any_shape/staging.cuh"
#include "gpu/divide.cuh"
#include "gpu/isa/bulk_copy.cuh"
#include "gpu/isa/halves.cuh"
#include "gpu/isa/mma.cuh"

namespace fops {
namespace {

// The lane map. One mma: D (16 x 8) += A (16 x 16) x B (16 x 8). Lane 4g + t, g = 0..7, t = 0..3, holds
//
//   A: weights of filters    channels 2t, 2t + 1   2t + 8, 2t + 9      B: column g, the same channels
//      g, g + 8                    a0, a1               a2, a3            high: b0 b1, low: b0 b1: one 16-byte read
//   D: filter g: d0 d1, filter g + 8: d2 d3, columns 2t and 2t + 1
//
// A chunk of 16 positions takes two mma tiles. Column n of tile j is position 4 (n / 2) + 2 j + n % 2 of the chunk, so
// that a lane has four neighbouring outputs of two filters, which take one 16-byte store each.

constexpr int kWarps = 8, kThreads = 32 * kWarps, kChunk = 16;
constexpr int kMaxSteps = 8;  // maximum number of steps, of 16 channels each

// Number of steps per chain, which the tensor cores add up before an ordinary addition takes over the sum. mma.sync
// adds 16 products in two groups, and truncates each sum toward zero. So a chain of n steps with terms of one sign
// loses up to 2 n + 1 units of 2^-24, and the omitted products of two low parts up to 4. The bound allows 4 + sqrt(C):
// 12 units for 64 channels.
constexpr int kChain = 2;

struct Tiling {
  int positions, tiles;  // positions per task, a multiple of kChunk; tasks per image
  bool vector;           // whether a lane can store four neighbouring outputs with one 16-byte store
  float threshold;       // minimum scaled magnitude of a nonzero value: see ImageScale
  uint32_t inverse_positions;
  Divisor by_tiles;
};

// Returns the index of the 16 bytes of a position and step that lanes with lane % 4 = t read. In this order neither the
// stores nor the loads have bank conflicts.
__device__ inline int entry_of(int position, int t) { return position * 4 + (t ^ (position >> 1 & 3)); }

template <int kSteps, int kFilterWarps>
__global__ void __launch_bounds__(kThreads, 2)
    tensor_core_pointwise(const __grid_constant__ Dims d, const __grid_constant__ Tiling tiling,
                          const float* __restrict__ x, const float* __restrict__ k, float* __restrict__ y,
                          unsigned* tile_counter) {
  constexpr int kGroups = kWarps / kFilterWarps, kFilters = 16 * kFilterWarps;
  extern __shared__ __align__(16) uint4 staged[];  // [step][entry_of]
  __shared__ unsigned tops[kWarps], slot;
  __shared__ int offsets[128], list[128], listed;
  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32, g = lane / 4, t = lane % 4;
  const int m0 = blockIdx.y * kFilters, own = m0 + warp % kFilterWarps * 16 + g, plane = d.H * d.W;
  const int image_floats = d.C * plane;

  const unsigned tasks = static_cast<unsigned>(d.B * tiling.tiles);
  PersistentTiles schedule;
  const auto sample = [&](unsigned task) {
    const float* image = x + 1LL * tiling.by_tiles.divide(task) * image_floats;
    return larger(0.0f, __ldg(image + hopper::sample_at(threadIdx.x, image_floats)));
  };
  float sampled =
      sample(schedule.now);  // this load, and the prefetch of the first pixels, overlap with the weights' split
  if (schedule.now < tasks) {
    const long long image = tiling.by_tiles.divide(schedule.now);
    const int first = static_cast<int>(schedule.now - image * tiling.tiles) * tiling.positions;
    const int left = min(tiling.positions, plane - first);
    const float* from = x + image * image_floats + first;
    for (int c = threadIdx.x; c < d.C; c += kThreads)
      for (int i = 0; i < left + 31; i += 32) prefetch_l1(from + c * plane + min(i, left - 1));
  }

  // A lane has a quarter of the weights of two filters. Four lanes determine a filter's scale together.
  uint32_t w_hi[kSteps][4], w_lo[kSteps][4];
  float unscale[2];
  bool weights_need_fallback = false;
  {
    float v[kSteps][4][2];
#pragma unroll
    for (int s = 0; s < kSteps; ++s)
#pragma unroll
      for (int e = 0; e < 4; ++e)
#pragma unroll
        for (int i = 0; i < 2; ++i) {
          const int m = own + e % 2 * 8, c = 16 * s + e / 2 * 8 + 2 * t + i;
          v[s][e][i] = m < d.M && c < d.C ? __ldg(k + m * d.C + c) : 0.0f;
        }
    float scale[2];
#pragma unroll
    for (int row = 0; row < 2; ++row) {
      uint32_t largest = 0,  // bits of the largest magnitude
          smallest = ~0u;    // nonzero_bits of the smallest nonzero weight
#pragma unroll
      for (int s = 0; s < kSteps; ++s)
#pragma unroll
        for (int e = row; e < 4; e += 2)
#pragma unroll
          for (int i = 0; i < 2; ++i) {
            largest = max(largest, __float_as_uint(fabsf(v[s][e][i])));
            smallest = min(smallest, nonzero_bits(v[s][e][i]));
          }
#pragma unroll
      for (int i = 1; i < 4; i *= 2) {
        largest = max(largest, __shfl_xor_sync(0xffffffffu, largest, i));
        smallest = min(smallest, __shfl_xor_sync(0xffffffffu, smallest, i));
      }
      const bool finite = __uint_as_float(largest) <
                          kLargestScaled;  // false if a weight is NaN, whose bits are the largest
      scale[row] = finite ? scale_for(__uint_as_float(largest)) : 1.0f;
      weights_need_fallback |= !finite || smallest < nonzero_bits(tiling.threshold / scale[row]);
      unscale[row] = 1.0f / scale[row];
    }
#pragma unroll
    for (int s = 0; s < kSteps; ++s)
#pragma unroll
      for (int e = 0; e < 4; ++e) {
        const SplitPair parts = split_pair(v[s][e][0] * scale[e % 2], v[s][e][1] * scale[e % 2]);
        w_hi[s][e] = parts.hi, w_lo[s][e] = parts.lo;
      }
  }
  weights_need_fallback = __syncthreads_or(weights_need_fallback);

  for (; schedule.now < tasks; schedule.advance(&slot)) {
    const long long image = tiling.by_tiles.divide(schedule.now);
    const int first = static_cast<int>(schedule.now - image * tiling.tiles) * tiling.positions;
    const int left = min(tiling.positions, plane - first);
    const float* source = x + image * image_floats;
    float* out = y + image * d.M * plane + first;

    const unsigned top = warp_max(__float_as_uint(sampled));
    if (lane == 0) tops[warp] = top;
    __syncthreads();  // also waits until all threads have read the previous task's pixels
    schedule.claim(&slot, tile_counter);
    unsigned largest = 0;
#pragma unroll
    for (int i = 0; i < kWarps; ++i) largest = max(largest, tops[i]);
    const float scale = hopper::sampled_scale(__uint_as_float(largest)), image_unscale = 1.0f / scale;
    const ImageScale by = {scale, tiling.threshold / scale};

    // A thread splits 16 channels of a position. Past the last channel or position it reads the last one again; such
    // values are multiplied by zero weights or affect only outputs that are not stored.
    uint32_t smallest = ~0u;
    bool infinite = false;
#pragma unroll 1
    for (int i = threadIdx.x; i < kSteps * tiling.positions; i += kThreads) {
      const int s = divide(i, tiling.inverse_positions), position = i - s * tiling.positions;
      const float* from = source + first + min(position, left - 1);
      float v[16];
#pragma unroll
      for (int c = 0; c < 16; ++c) v[c] = __ldg(from + min(16 * s + c, d.C - 1) * plane);
      uint32_t hi[8], lo[8], maximum = 0;
#pragma unroll
      for (int w = 0; w < 8; ++w) {
        const SplitPair parts = split_pair(v[2 * w] * by.scale, v[2 * w + 1] * by.scale);
        hi[w] = parts.hi, lo[w] = parts.lo;
        maximum = __vmaxu2(maximum, parts.hi & 0x7fff7fffu);
        smallest = min(smallest, min(nonzero_bits(v[2 * w]), nonzero_bits(v[2 * w + 1])));
      }
      if (hopper::not_finite(maximum)) {  // sets such words to zero: an infinity times a zero weight would be NaN
        infinite = true;
#pragma unroll
        for (int w = 0; w < 8; ++w)
          if (hopper::not_finite(hi[w])) hi[w] = lo[w] = 0;
      }
#pragma unroll
      for (int n = 0; n < 4; ++n)
        staged[s * tiling.positions * 4 + entry_of(position, n)] = make_uint4(hi[n], hi[n + 4], lo[n], lo[n + 4]);
    }
    const bool needs_fallback = __syncthreads_or(infinite || smallest < nonzero_bits(by.minimum));

    // While this task is multiplied, loads a sample of the next task's image, and prefetches its pixels into L2.
    if (schedule.next < tasks) {
      sampled = sample(schedule.next);
      const long long its_image = tiling.by_tiles.divide(schedule.next);
      const int its_first = static_cast<int>(schedule.next - its_image * tiling.tiles) * tiling.positions;
      const char* from = reinterpret_cast<const char*>(x + its_image * image_floats + its_first);
      const int bytes = 4 * min(tiling.positions, plane - its_first);
      for (int c = warp; c < d.C; c += kWarps)
        for (int i = lane * 128; i < bytes; i += 32 * 128) prefetch_l2(from + 4LL * c * plane + i);
    }

#pragma unroll 1
    for (int chunk = warp / kFilterWarps * kChunk; chunk < left; chunk += kGroups * kChunk) {
      float sum[2][4] = {}, small[2][4] = {};  // products of two high parts; products with a low part
#pragma unroll
      for (int begin = 0; begin < kSteps; begin += kChain) {
        float high[2][4];
#pragma unroll
        for (int s = begin; s < begin + kChain; ++s)
#pragma unroll
          for (int j = 0; j < 2; ++j) {
            const int position = chunk + g / 2 * 4 + 2 * j + g % 2;
            const uint4 in = staged[s * tiling.positions * 4 + entry_of(position, t)];
            mma_chain(s == begin, high[j], w_hi[s], in.x, in.y);
            mma(small[j], w_lo[s], in.x, in.y);
            mma(small[j], w_hi[s], in.z, in.w);
          }
#pragma unroll
        for (int j = 0; j < 2; ++j)
#pragma unroll
          for (int e = 0; e < 4; ++e) sum[j][e] += high[j][e];
      }
      const int column = chunk + 4 * t;
#pragma unroll
      for (int row = 0; row < 2; ++row) {
        float v[4];
#pragma unroll
        for (int i = 0; i < 4; ++i) {
          const int j = i / 2, e = 2 * row + i % 2;
          v[i] = (sum[j][e] + small[j][e] * (1.0f / kLowScale)) * unscale[row] * image_unscale;
        }
        const int m = own + 8 * row;
        float* to = out + m * plane + column;
        if (m >= d.M) continue;
        if (tiling.vector && column < left) {
          __stcs(reinterpret_cast<float4*>(to), make_float4(v[0], v[1], v[2], v[3]));
        } else {
#pragma unroll
          for (int i = 0; i < 4; ++i)
            if (column + i < left) to[i] = v[i];
        }
      }
    }

    // Recomputes outputs that depend on an unsplittable value, 128 positions at a time.
    if (needs_fallback || weights_need_fallback) {
      for (int base = 0; base < left; base += 128) {
        __syncthreads();
        if (threadIdx.x == 0) listed = 0;
        __syncthreads();
        if (const int n = base + threadIdx.x; threadIdx.x < 128 && n < left) {
          offsets[threadIdx.x] = first + n;
          if (weights_need_fallback || any_unsplittable(d, source, first + n, by))
            list[atomicAdd(&listed, 1)] = threadIdx.x;  // the order does not matter: outputs are independent
        }
        __syncthreads();
        fallback_outputs(d, source, k, out - first, offsets, offsets, list, listed, m0, kFilters, threadIdx.x,
                         kThreads);
      }
    }
  }
}

// Maximum bytes of a task's split pixels.
constexpr long long kStaged = 64 << 10;

template <int kSteps, int kFilterWarps>
fops_status launch(const fops_conv& c, const float* x, const float* k, float* y, cudaStream_t stream) {
  auto* kernel = tensor_core_pointwise<kSteps, kFilterWarps>;
  int sms = 0;
  FOPS_TRY(count_sms(&sms));
  const long long plane = c.H * c.W, parts = ceil_div(c.M, 16 * kFilterWarps);
  Tiling tiling = {};
  tiling.vector = plane % 4 == 0 && reinterpret_cast<uintptr_t>(y) % 16 == 0;
  tiling.threshold = min_scaled(static_cast<float>(c.C));
  // As many positions per task as fit into kStaged; fewer if many SMs would then have no task.
  long long maximum = kStaged / (kSteps * 64);
  while (maximum > 2 * kChunk && 2 * c.B * ceil_div(plane, maximum) * parts <= sms) maximum /= 2;
  tiling.positions = static_cast<int>(ceil_div(ceil_div(plane, ceil_div(plane, maximum)), kChunk) * kChunk);
  tiling.tiles = static_cast<int>(ceil_div(plane, tiling.positions));
  tiling.by_tiles = Divisor(static_cast<uint32_t>(tiling.tiles));
  tiling.inverse_positions = inverse_of(static_cast<uint32_t>(tiling.positions));
  const size_t shared = kSteps * 64 * static_cast<size_t>(tiling.positions);
  return in_pieces(c, tiling.tiles, [&](const Dims& piece, long long first) {
    unsigned grid = 0;
    FOPS_TRY(resident_grid(kernel, kThreads, shared, piece.B * tiling.tiles, &grid));
    TileCounter tile_counter(stream);
    FOPS_TRY(tile_counter.reserve(piece.B * tiling.tiles, grid, static_cast<unsigned>(parts)));
    kernel<<<dim3(grid, static_cast<unsigned>(parts)), kThreads, shared, stream>>>(
        piece, tiling, x + first * image_floats(c), k, y + first * output_floats(c), tile_counter.counters());
    return launched("tensor-core");
  });
}

template <int kSteps>
fops_status launch(const fops_conv& c, const float* x, const float* k, float* y, cudaStream_t stream) {
  if (c.M <= 16) return launch<kSteps, 1>(c, x, k, y, stream);
  if (c.M <= 32) return launch<kSteps, 2>(c, x, k, y, stream);
  if (c.M <= 64) return launch<kSteps, 4>(c, x, k, y, stream);
  return launch<kSteps, 8>(c, x, k, y, stream);
}

}  // namespace

bool takes_pointwise(const fops_conv& c) {
  // Layers with few filters and more than 64 channels are faster with their weights in shared memory (image_bands.cu).
  return takes_any(c) && c.x_type == FOPS_FLOAT32 && c.K == 1 && c.C >= kMinProducts && c.C <= 16 * kMaxSteps &&
         (c.C <= 64 || c.M > 32) && c.M <= 512 && image_floats(c) <= INT_MAX && output_floats(c) <= INT_MAX;
}

fops_status run_pointwise(const fops_conv& c, const void* x, const float* k, float* y, cudaStream_t stream) {
  const float* input = static_cast<const float*>(x);
  if (c.C <= 64) return launch<4>(c, input, k, y, stream);
  if (c.C <= 96) return launch<6>(c, input, k, y, stream);
  return launch<8>(c, input, k, y, stream);
}

}  // namespace fops
