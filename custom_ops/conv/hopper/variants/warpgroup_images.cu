// Few filters over a few channels, on Hopper: one instruction for the five output rows to which a pixel contributes.
//
//   A: 64 columns, registers    B: 5 rows x 16 filters, shared        D: 64 columns x 5 rows x 16 filters, registers
//   4 warps x 16 columns    x   | row 0 | 4 | 3 | 2 | 1 |         +=  a row takes six wgmma (2 channels: three)
//
// An image's columns are walks, each of which goes down a column, a row per step. A row's words are read once, multiplied
// with all five rows of the filters, and added to the five output rows in progress. Two teams share an SM. In each team a
// producer warpgroup splits the next image's pixels while a consumer warpgroup multiplies and stores; while one team adds
// up, the other can multiply.
// Costs: the filters' rows are in shared memory nearly twice. If there are few images, several blocks compute an image,
// some rows each, and each block stages the whole image.
#include <climits>
#include <type_traits>

#include "conv/hopper/fallback.cuh"
#include "conv/hopper/pipeline.cuh"
#include "conv/hopper/variants.h"
#include "conv/hopper/variants/warpgroup_images_halves.cuh"
#include "conv/hopper/variants/warpgroup_images_producer.cuh"
#include "gpu/band_scale.cuh"

namespace fops {
namespace {

// Staging is in warpgroup_images.cuh and warpgroup_images_producer.cuh, the operands in warpgroup_images.cuh.
using namespace warpgroup_images;

constexpr int kBlock = 2 * kTeams * kThreads;                     // threads per block; the consumers are the first
constexpr int kConsumerRegisters = 184, kProducerRegisters = 72;  // registers per thread; together they fill an SM's
constexpr int kManyImages = 32;  // minimum images per block for which a counter is used

// The lane map. Lane 4g + t of warp w, g = 0..7, t = 0..3, holds
//
//   A: pixels               words  0 1 2 3   4 5 6 7        D: accumulators of one output row
//      walk 16w + g                t -> a0   t -> a2           walk 16w + g      filters 2t, 2t+1 -> 0 1   8 on -> 4 5
//      walk 16w + g + 8            t -> a1   t -> a3           walk 16w + g + 8  filters 2t, 2t+1 -> 2 3   8 on -> 6 7
//
// and the five output rows in progress are sum[0] to sum[4], output row o in sum[o % 5]. B is a window of a circular
// buffer:
//
//   place                0  1  2  3  4  5  6  7  8
//   filters' row         0  4  3  2  1  0  4  3  2
//   input row r % 5 = 0  [-----------]                      The window begins at place (5 - r) % 5, so that each sum gets
//                   = 1              [-----------]          the filters' row that it needs.
//                   = 2           [-----------]

// The 64 rows of a wgmma are 64 walks down an image, one pixel per step. The first walks are the image's columns in the
// first band of rows, the next ones the same columns in the next band.
struct Walk {
  int column, start;  // column and row of its first output
  // Number of its first rows that it does not store: the last band ends with the image, and its first rows may be in the
  // band before. INT_MAX for surplus walks, whose pixels are zeros, because zeros take less power to multiply.
  int skipped;
  __device__ bool real() const { return skipped < INT_MAX; }
};
struct Tiling {
  int rows;    // output rows of a band
  int bands;   // number of bands that a block computes: all of an image, or those of piece blockIdx.y
  int stride;  // floats from one filter's outputs in shared memory to the next: a multiple of 8 plus 4, for the banks
  int plane;   // words of a staged plane, kPad included
  int slots;   // number of slots (staged images) per team
  bool vector_in, vector_out;

  // Whether the buffer for an image's outputs is large enough for fallback_rows.
  __device__ bool has_room() const { return kFilters * stride * sizeof(float) >= sizeof(FallbackScratch); }
  __device__ Walk walk(int n, const Dims& d) const {
    const int band = n / d.OW, want = band < bands ? (blockIdx.y * bands + band) * rows : d.OH;
    const int start = min(want, d.OH - rows);
    return {n % d.OW, start, band < bands ? want - start : INT_MAX};
  }
};

// Recomputes, with the float32 fallback, the outputs that depend on an unsplittable value, in rows first_row to
// end_row - 1 of an image. A warpgroup calls this after it has stored all outputs or started their copies.
template <typename Y>
__device__ __noinline__ void fallback_rows(const Dims& d, const ImageScale& by, const float* source, const float* k,
                                           const Y& out, int first_row, int end_row, int group, FallbackScratch& room) {
  const int thread = threadIdx.x % kThreads;
  bulk_wait_written();  // threads that started copies wait until these have written y
  warpgroup_sync(group);
  if (thread == 0) room.found.count = 0;
  warpgroup_sync(group);
  find_unsplittable(d, source, by, first_row * d.W, (end_row - first_row + K - 1) * d.W, &room.found, thread, kThreads);
  // The shuffles show the compiler that these are warp-uniform; otherwise it would wait after each wgmma of the kernel.
  const int first = __shfl_sync(0xffffffffu, first_row * d.OW, 0), end = __shfl_sync(0xffffffffu, end_row * d.OW, 0);
#pragma unroll 1
  for (int base = first; base < end; base += kThreads) {
    warpgroup_sync(group);
    if (thread == 0) room.listed = 0;
    warpgroup_sync(group);
    const int n = base + thread, corner = n / d.OW * d.W + n % d.OW;
    room.offsets[thread] = n, room.corners[thread] = corner;
    if (n < end && room.found.enters(d, source, corner, by))
      room.list[atomicAdd(&room.listed, 1)] = thread;  // the order does not matter: outputs are independent
    warpgroup_sync(group);
    fallback_outputs(d, source, k, out, room.offsets, room.corners, room.list, room.listed, 0, kFilters, thread,
                     kThreads);
  }
  warpgroup_sync(group);
}

// Y: float* or HalvesOut (epilogue.cuh).
template <int kWords, typename Y>
__global__ void __launch_bounds__(bound_with_wgmma(kBlock), 1)
    tensor_core_warpgroup_images(Dims d, Tiling tiling, const float* __restrict__ x, const float* __restrict__ k,
                                 const Y y, unsigned* counters) {
#if FOPS_SM_90A  // for other targets the kernel is empty
  constexpr int kSteps = steps(kWords);
  constexpr uint32_t kEight = 2 * kSteps * kCore / 4;  // units of 16 bytes from eight filters to the next eight
  constexpr bool kHalves = std::is_same_v<Y, HalvesOut>;
  extern __shared__ __align__(128) uint32_t dynamic[];
  __shared__ Shared shared;
  const int pixels = d.H * d.W, plane = d.OH * d.OW, taps = d.C * K * K;
  const int group = __shfl_sync(0xffffffffu, threadIdx.x / kThreads, 0), team = group % kTeams;
  Shared::Team& own = shared.teams[team];
  // Layout of `dynamic`: the circular buffer of weights, high parts and then low parts; each team's outputs,
  // [filter][pixel]; each team's slots.
  float* outputs = reinterpret_cast<float*>(dynamic + 2 * weight_words(kSteps));
  float* outgoing = outputs + team * kFilters * tiling.stride;
  uint32_t* words = dynamic + 2 * weight_words(kSteps) + kTeams * kFilters * tiling.stride;
  const Slots slots = {words + team * tiling.slots * 2 * tiling.plane, tiling.slots, tiling.plane};

  if (threadIdx.x % kThreads == 0 && group < kTeams) {
    for (int i = 0; i < kMaxSlots; ++i) barrier_init(&own.full[i], kThreads), barrier_init(&own.empty[i], kThreads);
    barrier_init_end();
  }
  const float minimum = min_scaled(static_cast<float>(taps));
  const auto [filter_scale, finite] = weight_scale(k, d.M * taps, minimum, blockDim.x, &shared.scratch);
#pragma unroll 6
  for (int i = threadIdx.x; i < weight_words(kSteps); i += blockDim.x) {
    const int row = (2 * K - i / place_words(kSteps)) % K;
    const int m = i / (2 * kSteps * kCore) % 2 * 8 + i % kCore / 4;
    const int word = i / kCore % (2 * kSteps) * 4 + i % 4;
    const SplitPair split = weight_word<kWords>(k, d, filter_scale, m, row, word);
    dynamic[i] = split.hi;
    dynamic[weight_words(kSteps) + i] = split.lo;
  }
  for (int i = threadIdx.x; i < kTeams * slots.count * 2 * kPad; i += blockDim.x)
    words[i / kPad * tiling.plane + pixels * kWords + i % kPad] = 0;
  bulk_fence();
  __syncthreads();

  if (group >= kTeams) {
    setmaxnreg_dec<kProducerRegisters>();
    float unscale = finite ? 1.0f / filter_scale : 0.0f;
    if constexpr (kHalves) unscale *= y.scale;
    stage_images<kWords>(d, group, slots, tiling.vector_in, tiling.has_room(), minimum, unscale, x, counters, own);
    return;
  }
  setmaxnreg_inc<kConsumerRegisters>();
  const int rank = threadIdx.x % kThreads, lane = threadIdx.x % 32, warp = rank / 32, g = lane / 4, t = lane % 4;
  const long long image_floats = static_cast<long long>(d.C) * pixels;
  const uint32_t w = static_cast<uint32_t>(core_descriptor(shared_address(dynamic), 4 * kCore, 0));
  const int first_row = blockIdx.y * tiling.bands * tiling.rows;  // the piece is output rows first_row to end_row - 1
  const int end_row = min(first_row + tiling.bands * tiling.rows, d.OH);
  const Walk a = tiling.walk(warp * 16 + g, d), b = tiling.walk(warp * 16 + g + 8, d);
  // corner(walk) returns the index of a walk's first word; row_a and row_b are the distances in words to the walk's
  // next row. Surplus walks read the zeros at a plane's end.
  const auto corner = [&](const Walk& it) { return t + kWords * (it.real() ? it.start * d.W + it.column : pixels); };
  const int corner_a = corner(a), corner_b = corner(b);
  const int row_a = a.real() ? d.W * kWords : 0, row_b = b.real() ? d.W * kWords : 0;
  const int out_a = 2 * t * tiling.stride + a.start * d.OW + a.column;
  const int out_b = 2 * t * tiling.stride + b.start * d.OW + b.column;

  PipelineState state;
#pragma unroll 1
  for (;; state.next(slots.count)) {
    barrier_wait(&own.full[state.stage], state.phase);
    Staged staged = own.staged[state.stage];
    staged.path = static_cast<Path>(__shfl_sync(0xffffffffu, static_cast<int>(staged.path), 0));  // uniform in a warp
    if (staged.path == Path::end) break;
    const float* source = x + staged.image * image_floats;
    const Y out = image_of(y, staged.image, d.M, plane);
    if (staged.path == Path::fallback) {
      barrier_arrive(&own.empty[state.stage]);
      fallback_image_band(source, k, out, d.C, d.H, d.W, d.M, K, first_row, end_row - first_row, rank, kThreads);
      continue;
    }
    const uint32_t* hi = slots.high(state.stage);

    // sum[o % 5] belongs to output row o of the walk; at input row r, products with the filters' row r - o are added to
    // it. The tensor cores truncate sums, so after two rows, and after two more, the sum is added to `total`: one chain
    // of all five rows lost 1.5 times as much as the bound allows. `small` has the products with a low part.
    float sum[K][8] = {}, small[K][8] = {}, total[K][8] = {}, done[8] = {};
    Operands<kSteps> now;
    const uint32_t *from_a = hi + corner_a, *from_b = hi + corner_b;
    uint32_t to_a = shared_address(outgoing + out_a), to_b = shared_address(outgoing + out_b);
    int row = 1 - K;  // number of the output row that the next input row completes
#pragma unroll
    for (int s = 0; s < kSteps; ++s) now.load(s, from_a, from_b, tiling.plane);
    const uint32_t one = 4 * tiling.stride;
    const auto store = [&](bool real, uint32_t to, int e) {
      store_shared_if(real, to, done[e]), store_shared_if(real, to + one, done[e + 1]);
      store_shared_if(real, to + 8 * one, done[e + 4]), store_shared_if(real, to + 9 * one, done[e + 5]);
    };
    // Stores output row `row` - 1, unless the band before has it, or no row is complete yet.
    const auto store_done = [&] {
      store(row > a.skipped, to_a, 0), store(row > b.skipped, to_b, 2);
      const uint32_t by = row > 0 ? 4 * d.OW : 0;
      to_a += by, to_b += by;
    };
    // Processes an input row r, with phase = r % 5, for `count` output rows. Multiplies, and meanwhile stores the
    // output row that the previous input row completed. Loads the next row's operands: those of the first of two steps
    // while the second is multiplied. Returns whether there are more rows.
    const auto step = [&](auto count, auto phase) {
      constexpr int kCount = decltype(count)::value, kPhase = decltype(phase)::value, kDone = (kPhase + 1) % K;
      wgmma_fence();
#pragma unroll
      for (int s = 0; s < kSteps; ++s) {
        const int at = ((K - kPhase) % K * place_words(kSteps) + 2 * s * kCore) / 4;
        wgmma_add<kCount, kEight>(small, now.high[s], w + weight_words(kSteps) / 4 + at);
        wgmma_add<kCount, kEight>(small, now.low[s], w + at);
        wgmma_add<kCount, kEight>(sum, now.high[s], w + at);
        wgmma_commit();
      }
      if (kCount == K) store_done();
      const bool more = row < tiling.rows - 1;
      from_a += more ? row_a : 0, from_b += more ? row_b : 0;
      if constexpr (kSteps == 2) {
        wgmma_wait_but<1>();
        now.keep(0);
        now.load(0, from_a, from_b, tiling.plane);
      }
      wgmma_wait(sum);
      wgmma_wait(small);
      now.keep(kSteps - 1);
      now.load(kSteps - 1, from_a, from_b, tiling.plane);
#pragma unroll
      for (int e = 0; e < 8; ++e) {
        if (kCount >= 2) take_chain<false>(&total[(kPhase + K - 1) % K][e], sum[(kPhase + K - 1) % K][e]);
        if (kCount >= 4) take_chain<true>(&total[(kPhase + K - 3) % K][e], sum[(kPhase + K - 3) % K][e]);
        if (kCount == K) take_sums(&done[e], total[kDone][e], sum[kDone][e], small[kDone][e], staged.unscale);
      }
      ++row;
      return more;
    };
#define FOPS_STEP(count, phase) step(std::integral_constant<int, count>(), std::integral_constant<int, phase>())
    FOPS_STEP(1, 0), FOPS_STEP(2, 1), FOPS_STEP(3, 2),
        FOPS_STEP(4, 3);  // the first rows contribute to fewer output rows
    bulk_wait_read();  // copies have read the previous image's outputs; after the barrier all threads may overwrite them
    warpgroup_sync(group);
    while (FOPS_STEP(5, 4) && FOPS_STEP(5, 0) && FOPS_STEP(5, 1) && FOPS_STEP(5, 2) && FOPS_STEP(5, 3)) {
    }
    barrier_arrive(&own.empty[state.stage]);
    store_done();
#undef FOPS_STEP

    bulk_fence();
    warpgroup_sync(group);
    if constexpr (kHalves) {
      store_halves(d, outgoing, tiling.stride, out);
    } else if (tiling.vector_out) {
      // TMA writes whole cache lines while the warpgroup multiplies its next image. If filters are as far apart in
      // shared memory as in y, one copy is enough; otherwise there is one per filter.
      const int copies = tiling.stride == plane ? 1 : d.M;
      if (rank < copies) {
        bulk_store(out + rank * plane, outgoing + rank * tiling.stride, d.M / copies * plane * 4);
        bulk_commit();
      }
    } else {
      for (int m = warp; m < d.M; m += kWarps)
        for (int i = first_row * d.OW + lane; i < end_row * d.OW; i += 32)
          out[m * plane + i] = outgoing[m * tiling.stride + i];
      warpgroup_sync(group);
    }
    if (staged.path == Path::mixed)
      fallback_rows(d, {staged.scale, minimum / staged.scale}, source, k, out, first_row, end_row, group,
                    *reinterpret_cast<FallbackScratch*>(outgoing));
  }
  bulk_wait_read();  // the block must not end before the copies have read its shared memory
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
  auto* kernel = tensor_core_warpgroup_images<kWords, Y>;
  cudaFuncAttributes compiled;
  FOPS_CUDA(cudaFuncGetAttributes(&compiled, kernel));
  const Dims d = dims(c);
  Tiling tiling = tiling_for(c);
  tiling.vector_in = d.H * d.W % 4 == 0 && reinterpret_cast<uintptr_t>(x) % 16 == 0;
  int maximum = 0, sms = 0;
  FOPS_TRY(count_sms(&sms));
  unsigned pieces = 1;
  if constexpr (std::is_same_v<Y, float*>) {
    // If there are fewer images than SMs, several blocks compute an image, and each of them stages the whole image.
    tiling.rows = static_cast<int>(ceil_div(d.OH, tiling.bands * std::max<int64_t>(1, sms / d.B)));
    pieces = static_cast<unsigned>(ceil_div(d.OH, tiling.bands * tiling.rows));
    tiling.vector_out = pieces == 1 && d.OH * d.OW % 4 == 0 && reinterpret_cast<uintptr_t>(y) % 16 == 0;
  }
  FOPS_TRY(device_attribute(cudaDevAttrMaxSharedMemoryPerBlockOptin, &maximum));
  const int fixed = 4 * 2 * weight_words(steps(kWords)) + 4 * kTeams * kFilters * tiling.stride;
  const int slot = 4 * kTeams * 2 * tiling.plane;  // bytes of one slot per team
  const int fit = (maximum - static_cast<int>(compiled.sharedSizeBytes) - fixed) / slot;
  tiling.slots = std::max(1, std::min(fit, kMaxSlots));
  const size_t shared = fixed + tiling.slots * slot;
  FOPS_TRY(allow_shared(kernel, shared));
  return in_pieces(c, 1, [&](const Dims& piece, long long first) {
    const unsigned grid = static_cast<unsigned>(std::min<long long>(piece.B, sms));
    TileCounter tile_counter(stream);
    if (piece.B >= kManyImages * grid) FOPS_TRY(tile_counter.reserve(piece.B, grid));
    kernel<<<dim3(grid, pieces), kBlock, shared, stream>>>(piece, tiling, x + first * image_floats(c), k,
                                                           image_of(y, first, piece.M, piece.OH * piece.OW),
                                                           tile_counter.counters());
    return launched("tensor-core");
  });
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

bool takes_warpgroup_images(const fops_conv& c) {
  if (!takes_any(c) || c.x_type != FOPS_FLOAT32 || c.K != K || c.C < 2 || c.C > 6 || c.M < 9 || c.M > kFilters)
    return false;
  if (c.H > 1024 || out_h(c) < K - 1 || out_w(c) > kWalks) return false;
  const Tiling tiling = tiling_for(c);
  return sizeof(float) * (2 * tiling.plane + kFilters * tiling.stride) <= kEveryGpuShared &&
         has_code_here(tensor_core_warpgroup_images<3, float*>, kBlock);
}

fops_status run_warpgroup_images(const fops_conv& c, const void* x, const float* k, float* y, cudaStream_t stream) {
  return run_any(c, x, k, y, stream);
}
fops_status run_warpgroup_images(const fops_conv& c, const void* x, const float* k, const HalvesOut& y,
                                 cudaStream_t stream) {
  return run_any(c, x, k, y, stream);
}

}  // namespace fops
