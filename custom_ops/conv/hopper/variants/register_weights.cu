// Two to four channels and many filters, on Hopper: the first layer of a network for colour images.
//
//   A: 64 filters, registers    B: pixels, shared memory      D: 64 filters x up to 112 columns, registers
//   a row of a filter:      x   | column 0 | 1 | 2 | ... +=   a row of outputs
//   8 taps, 5 to 8 real         | 8 pixels from the column on
//
// Weights stay in registers, except for a few low parts (stored_low), so only pixels are read repeatedly. Two consumer
// warpgroups compute tiles of output rows in turn. Four producer warps split rows of pixels ahead of them, and four
// warps store outputs.
// Costs: if K is less than 8, some of a row's 8 taps are zeros. A block takes a whole SM.
// Gains: half the shared memory traffic of any_shape.cu, and one launch instead of two.
#include "conv/hopper/variants/register_weights.cuh"

#include "conv/hopper/fallback.cuh"
#include "conv/hopper/pipeline.cuh"
#include "conv/hopper/scheduler.cuh"
#include "conv/hopper/variants.h"

namespace fops {
namespace {

using namespace register_weights;

// The lane map. Lane 4g + t of warp w of a group, g = 0..7, t = 0..3, holds
//
//   A: filter 16w + g      taps 2t, 2t + 1 of the step's first unit -> a0, of its second -> a2
//      filter 16w + g + 8                                           -> a1               -> a3
//   D: filter 16w + g      columns 2t, 2t + 1 of every eight -> d0 d1       filter 16w + g + 8 -> d2 d3
//
// A unit is a row of a filter in one channel. The units of a row for all channels come first, then those of the next
// row.

constexpr int kChain = 4;  // steps per chain: max_chain_steps for up to 399 products

// Returns the number of steps whose low parts of weights stay in shared memory, because accumulators need the
// registers.
constexpr int stored_low(int steps, int columns) { return steps <= 8 || columns < 96 ? 0 : columns == 96 ? 2 : 5; }

// Splits the weights; all consumer threads call this. operands receives [step][high, low][thread of a group], and
// low_tiles the low parts of the first kStored steps as wgmma reads them. Stores the filters' scales in shared memory.
// A thread loads all its weights before it uses one, so that it waits for memory only once.
template <int kSteps, int kStored>
__device__ __forceinline__ void split_weights(const Dims& d, float threshold, const float* __restrict__ k, int filters,
                                              Shared& shared, uint4* operands, uint8_t* low_tiles) {
  constexpr int kEach = (kSteps + kGroups - 1) / kGroups;  // steps per thread
  const int lane = threadIdx.x % 32, group = threadIdx.x / 128, thread = threadIdx.x % 128;
  const int own = thread / 32 * 16 + lane / 4, t = lane % 4;
  float v[kEach][4][2];
  uint32_t largest[2] = {},      // for two filters: bits of the largest magnitude
      smallest[2] = {~0u, ~0u};  // nonzero_bits of the smallest nonzero weight
#pragma unroll
  for (int n = 0; n < kEach; ++n)
#pragma unroll
    for (int e = 0; e < 4; ++e) {
      const int m = own + e % 2 * 8, unit = 2 * (n * kGroups + group) + e / 2, p = unit / d.C, c = unit - p * d.C;
      const bool real = m < filters && p < d.K;
      const float* from = k + ((m * d.C + c) * d.K + p) * d.K + 2 * t;
      v[n][e][0] = real && 2 * t < d.K ? __ldg(from) : 0.0f;
      v[n][e][1] = real && 2 * t + 1 < d.K ? __ldg(from + 1) : 0.0f;
    }
#pragma unroll
  for (int n = 0; n < kEach; ++n)
#pragma unroll
    for (int e = 0; e < 4; ++e)
#pragma unroll
      for (int i = 0; i < 2; ++i) {
        const uint32_t twice = 2 * __float_as_uint(v[n][e][i]);
        largest[e % 2] = max(largest[e % 2], twice / 2), smallest[e % 2] = min(smallest[e % 2], twice - 1);
      }
#pragma unroll
  for (int e = 0; e < 2; ++e) {
    atomicMax(&shared.largest[own + 8 * e], largest[e]);
    atomicMin(&shared.smallest[own + 8 * e], smallest[e]);
  }
  named_barrier(kRegisterWeightsSplit, 128 * kGroups);
  float scale[2];
#pragma unroll
  for (int e = 0; e < 2; ++e) {
    const float maximum = __uint_as_float(shared.largest[own + 8 * e]);  // NaN if any weight is
    const bool finite = maximum < kLargestScaled;
    scale[e] = finite ? scale_for(maximum) : 1.0f;
    if (!finite || shared.smallest[own + 8 * e] < nonzero_bits(threshold / scale[e])) shared.weights_need_fallback = 1;
    shared.unscale[own + 8 * e] = 1.0f / scale[e];
  }
#pragma unroll
  for (int n = 0; n < kEach; ++n) {
    const int step = n * kGroups + group;
    if (step >= kSteps) break;
    uint32_t hi[4], lo[4];
#pragma unroll
    for (int e = 0; e < 4; ++e) {
      const SplitPair parts = split_pair(v[n][e][0] * scale[e % 2], v[n][e][1] * scale[e % 2]);
      hi[e] = parts.hi, lo[e] = parts.lo;
      if (step < kStored) {
        const int at = step * hopper::kTileBytes + hopper::row_bytes(own + e % 2 * 8, e / 2) + 4 * t;
        *reinterpret_cast<uint32_t*>(low_tiles + at) = lo[e];
      }
    }
    operands[step * 256 + thread] = make_uint4(hi[0], hi[1], hi[2], hi[3]);
    operands[step * 256 + 128 + thread] = make_uint4(lo[0], lo[1], lo[2], lo[3]);
  }
  bulk_fence();
  named_barrier(kRegisterWeightsSplit, 128 * kGroups);
}

template <int kSteps, int kColumns>
__global__ void __launch_bounds__(bound_with_wgmma(kThreads), 1)
    tensor_core_register_weights(const __grid_constant__ Dims d, const __grid_constant__ Tiling tiling,
                                 const float* __restrict__ x, const float* __restrict__ k, float* __restrict__ y) {
#if FOPS_SM_90A
  constexpr int kSums = kColumns / 2, kStride = outgoing_stride(kColumns), kStored = stored_low(kSteps, kColumns);
  extern __shared__ __align__(128) uint4 dynamic[];
  __shared__ Shared shared;
  const int row_entries = tiling.row_entries(d.C), stage_entries = tiling.row_stages * row_entries;
  uint8_t* low_tiles = reinterpret_cast<uint8_t*>(dynamic);
  uint4* staged = dynamic + kStored * hopper::kTileBytes / 16;
  float* outgoing_all = reinterpret_cast<float*>(staged + stage_entries + row_entries);
  if (threadIdx.x == 0) {
    for (int i = 0; i < tiling.row_stages; ++i) {
      barrier_init(&shared.full[i], 32);
      barrier_init(&shared.empty[i], 4 * kGroups);
    }
    for (int group = 0; group < kGroups; ++group) {
      barrier_init(&shared.full_out[group], 128);
      barrier_init(&shared.empty_out[group], 32 * kStoreWarps / kGroups);
    }
    for (int i = 0; i < kTasks; ++i) shared.needs_fallback[i] = 0;
    shared.weights_need_fallback = 0;
    barrier_init_end();
  }
  if (threadIdx.x < kFilters) shared.largest[threadIdx.x] = 0, shared.smallest[threadIdx.x] = ~0u;
  __syncthreads();

  const int warp = __shfl_sync(0xffffffffu, threadIdx.x / 32, 0);  // shows the compiler that this is warp-uniform
  if (warp >= 4 * kGroups) {
    setmaxnreg_dec<kProducerRegisters>();
    const int helper = warp - 4 * kGroups, store_warp = helper - kProducerWarps;
    if (helper < kProducerWarps)
      stage_pixels(d, tiling, shared, helper, x, staged);
    else
      store_outputs<kColumns>(d, tiling, shared, store_warp % kGroups, store_warp / kGroups,
                              outgoing_all + store_warp % kGroups * kFilters * kStride, y);
    return;
  }

  setmaxnreg_inc<kConsumerRegisters>();
  const int group = warp / 4, lane = threadIdx.x % 32, g = lane / 4, t = lane % 4;
  const int m0 = blockIdx.y * kFilters, own = warp % 4 * 16 + g;
  uint4* operands = reinterpret_cast<uint4*>(outgoing_all);  // in the buffer for outputs, which is not used yet
  split_weights<kSteps, kStored>(d, tiling.threshold, k + 1LL * m0 * d.C * d.K * d.K, min(kFilters, d.M - m0), shared,
                                 operands, low_tiles);
  uint32_t w_hi[kSteps][4], w_lo[kSteps - kStored][4];
#pragma unroll
  for (int s = 0; s < kSteps; ++s) {
    const uint4 *from = operands + s * 256 + threadIdx.x % 128, v = from[0], u = from[128];
    w_hi[s][0] = v.x, w_hi[s][1] = v.y, w_hi[s][2] = v.z, w_hi[s][3] = v.w;
    if (s >= kStored) {
      uint32_t (&to)[4] = w_lo[s >= kStored ? s - kStored : 0];
      to[0] = u.x, to[1] = u.y, to[2] = u.z, to[3] = u.w;
    }
  }
  named_barrier(kRegisterWeightsSplit, 128 * kGroups);  // waits until all threads have read `operands`
  const bool weights_need_fallback = shared.weights_need_fallback;
  const float filter_unscale[2] = {shared.unscale[own], shared.unscale[own + 8]};
  float* outgoing = outgoing_all + group * kFilters * kStride;
  // The lower 32 bits of descriptors. Their unit is 16 bytes, so the next entry is 1 more.
  const uint32_t corner = static_cast<uint32_t>(core_descriptor(shared_address(staged), 0, 128));
  const uint32_t low_corner =
      static_cast<uint32_t>(core_descriptor(shared_address(low_tiles), hopper::kTileDepth, 128));
  const uint32_t low = tiling.low(d.C);

  // high: a chain of products of high parts. sum: first the products with a low part, then the sum of everything
  // finished.
  float high[kSums] = {}, sum[kSums] = {};
  uint32_t out_phase = 0;
  PipelineState ahead, behind;  // the next row of pixels to wait for; the next one to release
  unsigned round = 0, producer = 0;
  for (unsigned at = blockIdx.x; at < tiling.tasks; at += gridDim.x, ++round) {
    const Task task(tiling, d, at);
    const auto wait_for = [&](int rows) {
      for (int i = 0; i < rows; ++i, ahead.next(tiling.row_stages))
        barrier_wait(&shared.full[ahead.stage], ahead.phase);
    };
    wait_for(d.K - 1);
    // The image's scale, as stored by the warp that staged the task's first row.
    const ImageScale by = shared.scales[round % kTasks][producer % kProducerWarps];
    producer += task.rows + d.K - 1;
    const float image_unscale = 1.0f / by.scale;
    bool needs_fallback = false;
#pragma unroll 1
    for (int row = 0; row < task.rows; ++row) {
      wait_for(1);
      const bool last = row == task.rows - 1;
      if (last) needs_fallback = shared.needs_fallback[round % kTasks] == round + 1;
      const uint32_t row_at = behind.stage * row_entries;
#pragma unroll 1
      for (int tile = tiling.first_tile(group, row); tile < tiling.tiles; tile += kGroups) {
        // Returns the descriptor of a step's pixels. Past the end of the circular buffer it continues at the beginning.
        const auto pixels_of = [&](int s) {
          const uint32_t place = tiling.places[s], in_ring = row_at + (place & 0xffffu);
          const uint32_t passed = in_ring >= stage_entries ? stage_entries : 0;
          return corner + tile * kColumns + row_at + place - passed;
        };
        wgmma_fence();
#pragma unroll
        for (int s = 0; s < kSteps; ++s) {
          const uint32_t pixels = pixels_of(s);
          if (s < kStored)
            wgmma_ss<kColumns>(sum, low_corner + s * hopper::kTileBytes / 16, pixels, s > 0);
          else
            wgmma_rs<kColumns>(sum, w_lo[s >= kStored ? s - kStored : 0], pixels, s > 0);
          wgmma_rs<kColumns>(sum, w_hi[s], pixels + low, 1);
        }
#pragma unroll
        for (int begin = 0; begin < kSteps; begin += kChain) {
          if (begin > 0) wgmma_fence();
#pragma unroll
          for (int s = begin; s < begin + kChain && s < kSteps; ++s)
            wgmma_rs<kColumns>(high, w_hi[s], pixels_of(s), s > begin);
          wgmma_commit();
          if (begin == 0) wgmma_wait(sum);
          wgmma_wait(high);
#pragma unroll
          for (int i = 0; i < kSums; ++i)
            sum[i] = begin == 0 ? sum[i] * (1.0f / kLowScale) + high[i] : sum[i] + high[i];
        }
        barrier_wait(&shared.empty_out[group], out_phase ^ 1);
        float* to = outgoing + own * kStride + 2 * t;
#pragma unroll
        for (int i = 0; i < kSums; i += 2) {
          const float back = filter_unscale[i / 2 % 2];
          *reinterpret_cast<float2*>(to + i / 2 % 2 * 8 * kStride + i / 4 * 8) =
              make_float2(sum[i] * back * image_unscale, sum[i + 1] * back * image_unscale);
        }
        barrier_arrive(&shared.full_out[group]);
        out_phase ^= 1;
      }
      for (int i = 0; i < (last ? d.K : 1); ++i, behind.next(tiling.row_stages))
        if (lane == 0) barrier_arrive(&shared.empty[behind.stage]);
    }

    if (needs_fallback || weights_need_fallback) {
      barrier_wait(&shared.empty_out[group], out_phase ^ 1);  // waits until all outputs have been stored
      fallback_task<kColumns>(d, tiling, weights_need_fallback, task, group, by, x, k, y,
                              *reinterpret_cast<FallbackScratch*>(outgoing));
    }
  }
#endif
}

constexpr size_t kShared = 227 * 1024 - sizeof(Shared) - 256;  // dynamic shared memory per block on Hopper

int units(const fops_conv& c) { return static_cast<int>(c.C * c.K); }

// A row of outputs is cut evenly into tiles of up to 112 columns; their width is rounded up to one that was compiled.
int tiles_of(const fops_conv& c) { return static_cast<int>(ceil_div(out_w(c), 112)); }
int columns_of(const fops_conv& c) {
  const int64_t minimum = ceil_div(out_w(c), tiles_of(c));
  for (const int columns : {40, 56, 64, 80, 96})
    if (columns >= minimum) return columns;
  return 112;
}

int steps_of(const fops_conv& c) { return units(c) <= 16 ? 8 : 11; }
size_t low_bytes(const fops_conv& c) { return stored_low(steps_of(c), columns_of(c)) * hopper::kTileBytes; }

size_t shared_bytes(const fops_conv& c, int row_stages) {
  const int64_t width = tiles_of(c) * columns_of(c), outgoing = kGroups * kFilters * outgoing_stride(columns_of(c));
  return low_bytes(c) + (row_stages + 1) * 2 * c.C * width * sizeof(uint4) +
         std::max<size_t>(sizeof(float) * outgoing, steps_of(c) * 256 * sizeof(uint4));
}

// Returns the number of rows of pixels in shared memory: as many as are useful and fit; 0 if none fits.
int row_stages_of(const fops_conv& c) {
  int row_stages = static_cast<int>(std::min<int64_t>(kMaxRows, 2 * c.K));
  while (row_stages > 0 && shared_bytes(c, row_stages) > kShared) --row_stages;
  return row_stages;
}

template <int kSteps, int kColumns>
fops_status launch(const fops_conv& c, const float* x, const float* k, float* y, cudaStream_t stream) {
  auto* kernel = tensor_core_register_weights<kSteps, kColumns>;
  int sms = 0;
  FOPS_TRY(count_sms(&sms));
  const long long parts = ceil_div(c.M, kFilters);
  return in_pieces(c, out_h(c), [&](const Dims& piece, long long first) {
    Tiling tiling = {};
    tiling.tiles = tiles_of(c), tiling.width = tiling.tiles * kColumns;
    // With the usual threshold, min_scaled(75), three channels of 5x5 exceeded the bound.
    const int products = piece.C * piece.K * piece.K;
    tiling.threshold = min_scaled(products <= 75 ? 1.0f : static_cast<float>(products));
    tiling.pairs = piece.OW % 2 == 0 && reinterpret_cast<uintptr_t>(y) % 8 == 0;
    tiling.row_stages = row_stages_of(c);
    // All blocks get the same number of whole images. The remaining images are cut into bands, each of which stages K -
    // 1 additional rows of pixels.
    const long long blocks = std::max(1LL, sms / parts), others = piece.B % blocks;
    tiling.whole = static_cast<unsigned>(piece.B - others);
    double minimum = 0;
    for (int rows = piece.OH; rows >= 1; --rows) {
      const long long bands = ceil_div(piece.OH, rows);
      const double cost = static_cast<double>(ceil_div(others * bands, blocks)) * (rows + 0.6 * (piece.K - 1) + 1);
      if (!tiling.rows || cost < minimum) minimum = cost, tiling.rows = rows, tiling.bands = static_cast<int>(bands);
    }
    tiling.by_bands = Divisor(static_cast<uint32_t>(tiling.bands));
    tiling.tasks = tiling.whole + static_cast<unsigned>(others * tiling.bands);
    const auto place = [&](int unit) {
      return static_cast<uint32_t>(unit / piece.C * tiling.row_entries(piece.C) + unit % piece.C * tiling.width);
    };
    for (int s = 0; s < kSteps; ++s) {
      // A missing unit has zero weights, so it may read another unit's pixels.
      const int all = units(c), one = std::min(2 * s, all - 1), two = std::min(2 * s + 1, all - 1);
      tiling.places[s] = place(one) | (place(two) - place(one)) << 16;
    }
    const size_t shared = shared_bytes(c, tiling.row_stages);
    FOPS_TRY(allow_shared(kernel, shared));
    const dim3 grid(static_cast<unsigned>(std::min<long long>(tiling.tasks, blocks)), static_cast<unsigned>(parts));
    kernel<<<grid, kThreads, shared, stream>>>(piece, tiling, x + first * image_floats(c), k,
                                               y + first * output_floats(c));
    return launched("tensor-core");
  });
}

template <int kSteps>
fops_status launch(const fops_conv& c, const float* x, const float* k, float* y, cudaStream_t stream) {
  switch (columns_of(c)) {
    case 40: return launch<kSteps, 40>(c, x, k, y, stream);
    case 56: return launch<kSteps, 56>(c, x, k, y, stream);
    case 64: return launch<kSteps, 64>(c, x, k, y, stream);
    case 80: return launch<kSteps, 80>(c, x, k, y, stream);
    case 96: return launch<kSteps, 96>(c, x, k, y, stream);
    default: return launch<kSteps, 112>(c, x, k, y, stream);
  }
}

bool usable() { return has_code_here(tensor_core_register_weights<11, 112>, kThreads); }

}  // namespace

bool takes_register_weights(const fops_conv& c) {
  return takes_any(c) && c.x_type == FOPS_FLOAT32 && c.C > 1 && c.C <= 4 && c.K >= 5 && c.K <= 8 &&
         units(c) <= 2 * kMaxSteps && c.M > 32 && c.M <= 128 && (c.M <= kFilters || c.M > 96) &&
         out_w(c) >= kMinColumns && c.H <= 4096 && c.W <= 1024 && output_floats(c) <= INT_MAX &&
         row_stages_of(c) >= c.K + kProducerWarps && usable();
}

fops_status run_register_weights(const fops_conv& c, const void* x, const float* k, float* y, cudaStream_t stream) {
  const float* input = static_cast<const float*>(x);
  return steps_of(c) <= 8 ? launch<8>(c, input, k, y, stream) : launch<11>(c, input, k, y, stream);
}

}  // namespace fops
