// Step 12, a few filters over a few channels, on Hopper: one instruction for the five rows of sums that a pixel meets.
//
//   A: 64 walks, registers      B: 5 rows x 16 filters, shared        D: 64 walks x 5 rows x 16 filters, registers
//   4 warps x 16 walks      x   | row 0 | 4 | 3 | 2 | 1 |         +=  a wgmma; six make a row of pixels
//
// The walk of few_filters.cu, but wgmma is issued by four warps together, runs beside them and reads B from shared
// memory. A warpgroup makes an image, three to a multiprocessor: while one stages pixels or stores, the others
// multiply.
// Costs: the filters' rows lie in shared memory nearly twice; setting them up takes 8,000 cycles. Only code for sm_90a
// has the instruction. Of few images several blocks make one, some rows each: 3 to 16, 28x28 8.2 us in place of 11.1.
// Gains: sp2018's second layer 0.313 ms, cuDNN 1.03 (with one chain of sums, which broke the bound, 0.308; with both
// halves' products in it, which lost bits, 0.264). docs/notebook.md: limits, what each version gained, what was tried.
#include <type_traits>

#include "conv/cuda/12_tensor_core/plain.cuh"
#include "conv/cuda/12_tensor_core/direct_band.cuh"
#include "conv/cuda/12_tensor_core/few_filters.cuh"
#include "conv/cuda/12_tensor_core/tensor_core.h"
#include "conv/cuda/12_tensor_core/warpgroup_ring.cuh"
#include "conv/cuda/kernels.h"
#include "gpu/band_scale.cuh"
#include "gpu/isa/bulk_copy.cuh"

namespace fops {
namespace {

using namespace few_filters;  // few_filters.cuh: staging; warpgroup_ring.cuh: the operands

// The lane map. Lane 4g + t of warp w, g = 0..7, t = 0..3, holds
//
//   A: pixels               words  0 1 2 3   4 5 6 7        D: sums of one output row
//      walk 16w + g                t -> a0   t -> a2           walk 16w + g      filters 2t, 2t+1 -> 0 1   8 on -> 4 5
//      walk 16w + g + 8            t -> a1   t -> a3           walk 16w + g + 8  filters 2t, 2t+1 -> 2 3   8 on -> 6 7
//
// and the five output rows under way are sum[0] to sum[4], output row o in sum[o % 5]. B is a window of a ring:
//
//   place                0  1  2  3  4  5  6  7  8
//   filters' row         0  4  3  2  1  0  4  3  2
//   input row r % 5 = 0  [-----------]                      the window begins at place (5 - r) % 5: sum s then meets
//                   = 1              [-----------]          the filters' row that it wants
//                   = 2           [-----------]

// The 64 rows of a wgmma are 64 walks down an image, a pixel a step: its columns, and below them the same columns of
// the next band of rows.
struct Walk {
  int column, start;  // the output pixel where it begins
  int skipped;        // rows that another walk, or none, writes: the last band ends with the image, and overlaps
};
struct Tiling {
  int rows;    // output rows of a band
  int bands;   // that a block makes of an image: all, or those of the piece with its blockIdx.y
  int stride;  // floats between two filters' outputs in shared memory: 4 beyond a multiple of 8, for the banks
  int plane;   // words of a staged plane, kPad included
  bool vector_in, vector_out;

  // Whether the room of an image's outputs is enough for plain_rows.
  __device__ bool has_room() const { return kFilters * stride * sizeof(float) >= sizeof(PlainRoom); }
  __device__ Walk walk(int n, const Dims& d) const {
    const int band = n / d.OW, want = band < bands ? (blockIdx.y * bands + band) * rows : d.OH;
    const int start = min(want, d.OH - rows);
    return {n % d.OW, start, want - start};
  }
};

// The outputs in rows [first_row, end_row) of an image that a value without a good split enters: in plain float32, where
// the others have been stored or are on their way. By a warpgroup.
template <typename Y>
__device__ __noinline__ void plain_rows(const Dims& d, const ImageScale& by, const float* source,
                                        const float* k, const Y& out, int first_row, int end_row, int group,
                                        PlainRoom& room) {
  const int thread = threadIdx.x % kThreads;
  bulk_wait_written();  // by the threads that have begun copies
  warpgroup_sync(group);
  if (thread == 0) room.found.count = 0;
  warpgroup_sync(group);
  find_beyond(d, source, by, first_row * d.W, (end_row - first_row + K - 1) * d.W, &room.found, thread, kThreads);
  for (int base = first_row * d.OW; base < end_row * d.OW; base += kThreads) {
    warpgroup_sync(group);
    if (thread == 0) room.listed = 0;
    warpgroup_sync(group);
    const int n = base + thread, corner = n / d.OW * d.W + n % d.OW;
    room.offsets[thread] = n, room.corners[thread] = corner;
    if (n < end_row * d.OW && room.found.enters(d, source, corner, by))
      room.list[atomicAdd(&room.listed, 1)] = thread;  // in any order: each is by itself
    warpgroup_sync(group);
    plain_outputs(d, source, k, out, room.offsets, room.corners, room.list, room.listed, 0, kFilters, thread,
                  kThreads);
  }
  warpgroup_sync(group);
}

// Y: floats or halves (destination.cuh).
template <int kWords, typename Y>
__global__ void __launch_bounds__(bound_with_wgmma(kMostGroups * kThreads), 1)
    tensor_core_warpgroup(Dims d, Tiling tiling, const float* __restrict__ x, const float* __restrict__ k, const Y y) {
#if FOPS_SM_90A  // code for any other GPU holds an empty kernel
  constexpr int kSteps = steps(kWords);
  constexpr bool kHalves = std::is_same_v<Y, HalvesOut>;
  extern __shared__ __align__(128) uint32_t shared[];
  __shared__ unsigned scratch, all_tops[kMostGroups][2][kWarps];
  const int groups = blockDim.x / kThreads, group = threadIdx.x / kThreads;
  const Threads own = {static_cast<int>(threadIdx.x % kThreads), kThreads};
  const int lane = threadIdx.x % 32, warp = own.rank / 32, g = lane / 4, t = lane % 4;
  const int pixels = d.H * d.W, plane = d.OH * d.OW, taps = d.C * K * K;
  uint32_t* hi = shared + 2 * ring_words(kSteps) + group * (2 * tiling.plane + kFilters * tiling.stride);
  uint32_t* lo = hi + tiling.plane;
  float* outgoing = reinterpret_cast<float*>(lo + tiling.plane);  // [filter][pixel]
  const long long image_floats = static_cast<long long>(d.C) * pixels;

  const float least = least_scaled(static_cast<float>(taps));
  const auto [filter_scale, finite] = weight_scale(k, d.M * taps, least, blockDim.x, &scratch);
  const float filter_unscale = 1.0f / filter_scale;
#pragma unroll 6
  for (int i = threadIdx.x; i < ring_words(kSteps); i += blockDim.x) {
    const int row = (2 * K - i / place_words(kSteps)) % K;
    const int m = i / (2 * kSteps * kCore) % 2 * 8 + i % kCore / 4;
    const int word = i / kCore % (2 * kSteps) * 4 + i % 4;
    const SplitPair split = weight_word<kWords>(k, d, filter_scale, m, row, word);
    shared[i] = split.hi;
    shared[ring_words(kSteps) + i] = split.lo;
  }
  if (own.rank < kPad) hi[pixels * kWords + own.rank] = lo[pixels * kWords + own.rank] = 0;
  bulk_fence();
  __syncthreads();
  const uint64_t w_hi = layout(kSteps) | static_cast<uint32_t>(__cvta_generic_to_shared(shared)) >> 4;
  const uint64_t w_lo = w_hi + ring_words(kSteps) / 4;

  const int first_row = blockIdx.y * tiling.bands * tiling.rows;  // and the one behind the last: of the piece
  const int end_row = min(first_row + tiling.bands * tiling.rows, d.OH);
  const Walk a = tiling.walk(warp * 16 + g, d), b = tiling.walk(warp * 16 + g + 8, d);
  const int corner_a = (a.start * d.W + a.column) * kWords + t, corner_b = (b.start * d.W + b.column) * kWords + t;
  const int row_words = d.W * kWords;
  const int out_a = 2 * t * tiling.stride + a.start * d.OW + a.column;
  const int out_b = 2 * t * tiling.stride + b.start * d.OW + b.column;

  const long long stride = static_cast<long long>(gridDim.x) * groups;
  for (long long image = blockIdx.x * groups + group; image < d.B; image += stride) {
    const float* source = x + image * image_floats;
    const Y out = image_of(y, image, d.M, plane);
    float scale = kImageScale;
    const Seen seen = split_own<kWords>(own, source, d.C, pixels, tiling.vector_in, scale, hi, lo);
    bulk_wait_read();  // the image before this one has left `outgoing`; the barrier in group_max tells the others
    const unsigned top = group_max(seen.top_or_small(least / scale), group, all_tops[group][0]);
    bool direct = false, mixed = false;  // whether all outputs take the plain road; whether some do
    if (!(top >= __half_as_ushort(__float2half_rn(kWindowLow)) &&
          top <= __half_as_ushort(__float2half_rn(kWindowHigh))) || !finite) {
      const float mine = own_largest(own, source, d.C, pixels, tiling.vector_in);
      const float largest = __uint_as_float(group_max(__float_as_uint(mine), group, all_tops[group][1]));
      scale = scale_for(largest);
      warpgroup_sync(group);  // the tops have been read
      mixed = group_max(seen.smallest < nonzero_bits(least / scale), group, all_tops[group][1]);
      direct = !finite || !(largest < kLargestScaled) || (mixed && !tiling.has_room());
      if (!direct) split_own<kWords>(own, source, d.C, pixels, tiling.vector_in, scale, hi, lo);
      warpgroup_sync(group);
    }
    // The next image is on its way into L2 while this one is multiplied.
    if (image + stride < d.B && tiling.vector_in && own.rank == 0)
      bulk_prefetch_l2(source + stride * image_floats, d.C * pixels * 4);
    if (direct) {
      direct_band(source, k, out, d.C, d.H, d.W, d.M, K, first_row, end_row - first_row, own.rank, kThreads);
      warpgroup_sync(group);
      continue;
    }
    const float image_unscale = 1.0f / scale;

    // Sum o % 5 is that of output row o of the walk; at input row r it meets the filters' row r - o. The tensor cores
    // cut off what a sum has no room for, so behind two rows, and behind two more, `total` takes it over: one chain of
    // all five rows lost 1.5 times what the bound allows. `small` holds the products that have one low half.
    float sum[K][8] = {}, small[K][8] = {}, total[K][8] = {}, done[8] = {};
    Operands<kSteps> now;
    const uint32_t *from_a = hi + corner_a, *from_b = hi + corner_b;
    float *to_a = outgoing + out_a, *to_b = outgoing + out_b;
    int row = 1 - K;  // the output row that the next input row completes
    now.load(from_a, from_b, tiling.plane);
    const auto store = [&](float* to, int e) {
      to[0] = done[e] * image_unscale, to[tiling.stride] = done[e + 1] * image_unscale;
      to[8 * tiling.stride] = done[e + 4] * image_unscale, to[9 * tiling.stride] = done[e + 5] * image_unscale;
    };
    const auto store_done = [&] {  // output row `row` - 1
      if (row > a.skipped) store(to_a, 0);
      if (row > b.skipped) store(to_b, 2);
      if (row > 0) to_a += d.OW, to_b += d.OW;
    };
    // Input row r, of which r % 5 is known: multiplies, and meanwhile stores what the row before completed and loads
    // the next row's operands. Returns whether there is more.
    const auto step = [&](auto count, auto phase) {
      constexpr int kCount = decltype(count)::value, kPhase = decltype(phase)::value, kDone = (kPhase + 1) % K;
      wgmma_fence();
#pragma unroll
      for (int s = 0; s < kSteps; ++s) {
        const int at = ((K - kPhase) % K * place_words(kSteps) + 2 * s * kCore) / 4;
        wgmma_add<kCount>(small, now.high[s], w_lo + at);
        wgmma_add<kCount>(small, now.low[s], w_hi + at);
        wgmma_add<kCount>(sum, now.high[s], w_hi + at);
      }
      wgmma_commit();
      if (kCount == K) store_done();
      const bool more = row < tiling.rows - 1;
      from_a += more ? row_words : 0, from_b += more ? row_words : 0;
      wgmma_wait(sum);
      wgmma_wait(small);
      now.keep();
      now.load(from_a, from_b, tiling.plane);
#pragma unroll
      for (int e = 0; e < 8; ++e) {
        if (kCount >= 2) take_chain<false>(&total[(kPhase + K - 1) % K][e], sum[(kPhase + K - 1) % K][e]);
        if (kCount >= 4) take_chain<true>(&total[(kPhase + K - 3) % K][e], sum[(kPhase + K - 3) % K][e]);
        if (kCount == K)
          take_sums(&done[e], total[kDone][e], sum[kDone][e], small[kDone][e], filter_unscale);
      }
      ++row;
      return more;
    };
#define FOPS_STEP(count, phase) step(std::integral_constant<int, count>(), std::integral_constant<int, phase>())
    FOPS_STEP(1, 0), FOPS_STEP(2, 1), FOPS_STEP(3, 2), FOPS_STEP(4, 3);  // the first sums have begun, the last not
    while (FOPS_STEP(5, 4) && FOPS_STEP(5, 0) && FOPS_STEP(5, 1) && FOPS_STEP(5, 2) && FOPS_STEP(5, 3)) {
    }
    store_done();
#undef FOPS_STEP

    bulk_fence();
    warpgroup_sync(group);
    if constexpr (kHalves) {  // here, for a row's sums leave no registers for it
      const bool fours = plane % 4 == 0 && tiling.stride == plane, pairs = plane % 2 == 0 && !fours;
      constexpr int kOnce = 4;  // of fours, a thread: all loads before the stores
      const int last = d.M * plane - 4;
      for (int first = 4 * own.rank; fours && first <= last; first += kOnce * 4 * kThreads) {
        float4 v[kOnce];
#pragma unroll
        for (int n = 0; n < kOnce; ++n)
          v[n] = *reinterpret_cast<const float4*>(outgoing + min(first + n * 4 * kThreads, last));
#pragma unroll
        for (int n = 0; n < kOnce; ++n)
          if (const int i = first + n * 4 * kThreads; i <= last) put_four(out, i, v[n]);
      }
      for (int m = fours ? d.M : warp; m < d.M; m += kWarps) {
        const float* from = outgoing + m * tiling.stride;
        for (int i = 2 * lane; pairs && i < plane; i += 64)
          put_two(out, m * plane + i, *reinterpret_cast<const float2*>(from + i));
        for (int i = lane; !pairs && i < plane; i += 32) put(out, m * plane + i, from[i]);
      }
    } else if (tiling.vector_out) {
      // The engine writes whole lines while the group splits and multiplies its next image. One copy, where filters
      // lie as closely in shared memory as in y; else one a filter.
      const int copies = tiling.stride == plane ? 1 : d.M;
      if (own.rank < copies) {
        bulk_store(out + own.rank * plane, outgoing + own.rank * tiling.stride, d.M / copies * plane * 4);
        bulk_commit();
      }
    } else {
      for (int m = warp; m < d.M; m += kWarps)
        for (int i = first_row * d.OW + lane; i < end_row * d.OW; i += 32)
          out[m * plane + i] = outgoing[m * tiling.stride + i];
      warpgroup_sync(group);
    }
    if (mixed)
      plain_rows(d, {scale, least / scale}, source, k, out, first_row, end_row, group,
                 *reinterpret_cast<PlainRoom*>(outgoing));
  }
  bulk_wait_read();  // shared memory outlives the copies that read it
#endif
}

Tiling tiling_for(const fops_conv& c) {
  Tiling tiling = {};
  const int64_t OH = out_h(c), OW = out_w(c), words = (c.C + 1) / 2;
  tiling.bands = static_cast<int>(kWalks / OW);
  tiling.rows = static_cast<int>(ceil_div(OH, tiling.bands));
  tiling.stride = static_cast<int>(ceil_div(OH * OW - 4, 8) * 8 + 4);
  tiling.plane = static_cast<int>(ceil_div(c.H * c.W * words + kPad, 32) * 32);
  return tiling;
}

template <int kWords, typename Y>
fops_status run(const fops_conv& c, const float* x, const float* k, const Y& y, cudaStream_t stream) {
  auto* kernel = tensor_core_warpgroup<kWords, Y>;
  cudaFuncAttributes compiled;
  FOPS_CUDA(cudaFuncGetAttributes(&compiled, kernel));
  const Dims d = dims(c);
  Tiling tiling = tiling_for(c);
  tiling.vector_in = d.H * d.W % 4 == 0 && reinterpret_cast<uintptr_t>(x) % 16 == 0;
  int device = 0, most = 0, multiprocessors = 0;
  FOPS_CUDA(cudaGetDevice(&device));
  FOPS_CUDA(cudaDeviceGetAttribute(&multiprocessors, cudaDevAttrMultiProcessorCount, device));
  unsigned pieces = 1;
  if constexpr (std::is_same_v<Y, float*>) {
    // Of few images each is made by as many blocks as there are multiprocessors for; all of them stage all of it.
    tiling.rows = static_cast<int>(ceil_div(d.OH, tiling.bands * std::max<int64_t>(1, multiprocessors / d.B)));
    pieces = static_cast<unsigned>(ceil_div(d.OH, tiling.bands * tiling.rows));
    tiling.vector_out = pieces == 1 && d.OH * d.OW % 4 == 0 && reinterpret_cast<uintptr_t>(y) % 16 == 0;
  }
  FOPS_CUDA(cudaDeviceGetAttribute(&most, cudaDevAttrMaxSharedMemoryPerBlockOptin, device));
  const int weights = 4 * 2 * ring_words(steps(kWords)), image = 4 * (2 * tiling.plane + kFilters * tiling.stride);
  const int fit = (most - static_cast<int>(compiled.sharedSizeBytes) - weights) / image;
  const int groups = std::max(1, std::min(fit, kMostGroups));
  const size_t shared = weights + groups * image;
  FOPS_TRY(allow_shared(kernel, shared));
  unsigned grid = 0;
  FOPS_TRY(resident_grid(kernel, groups * kThreads, shared, ceil_div(d.B, groups), &grid));
  kernel<<<dim3(grid, pieces), groups * kThreads, shared, stream>>>(d, tiling, x, k, y);
  return launched("tensor-core");
}

template <typename Y>
fops_status run_any(const fops_conv& c, const void* x, const float* k, const Y& y, cudaStream_t stream) {
  const float* input = static_cast<const float*>(x);
  switch ((c.C + 1) / 2) {
    case 1: return run<1>(c, input, k, y, stream);
    case 2: return run<2>(c, input, k, y, stream);
    default: return run<3>(c, input, k, y, stream);
  }
}

}  // namespace

bool takes_tensor_core_warpgroup(const fops_conv& c) {
  return out_w(c) <= kWalks && has_code_here(tensor_core_warpgroup<3, float*>, kMostGroups * kThreads);
}

fops_status run_tensor_core_warpgroup(const fops_conv& c, const void* x, const float* k, float* y,
                                      cudaStream_t stream) {
  return run_any(c, x, k, y, stream);
}
fops_status run_tensor_core_warpgroup(const fops_conv& c, const void* x, const float* k, const HalvesOut& y,
                                      cudaStream_t stream) {
  return run_any(c, x, k, y, stream);
}

}  // namespace fops
