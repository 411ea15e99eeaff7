// Several channels and few filters, on Hopper: wgmma between a band of an image and all weights.
//
// Positions are the rows of the product and filters its columns, so that 24 filters take 24 columns; in any_shape.cu
// they take 32 rows. A block keeps all weights in shared memory and processes one band after another. Two blocks share
// an SM: one stages while the other multiplies. For small batches image_bands_resident.cu has less overhead.
// Costs: positions in the last K - 1 columns of a row are computed and dropped. For 24 columns, a wgmma takes longer to
// read its 64 positions than to multiply them.
// Gains: wgmma's rate for the shapes of channel_quads.cu. docs/notebook.md lists what was tried.
#include "conv/hopper/variants/image_bands.cuh"

#include "conv/hopper/pipeline.cuh"
#include "conv/hopper/scheduler.cuh"
#include "conv/hopper/variants.h"

namespace fops {
namespace {

using namespace image_bands;

// The lane map. One wgmma: D (64 x columns) += A (64 x 16) x B (16 x columns), A and B from shared memory.
//
//   A: row i, halves 0-7    the entry of position first + i for the step's first unit: 16 bytes, as they were staged
//            halves 8-15    the entry for the step's second unit
//   B: columns 0 to F - 1   the filters' high parts            `both`: D for the pixels' high parts, all 2 F columns
//              F to 2 F - 1 the filters' low parts             `small`: D for their low parts, the first F columns
//   D: lane 4g + t of warp w holds rows 16 w + g and 16 w + g + 8, columns 2t and 2t + 1 of every eight
//
// So a lane has all three sums of a filter at a position.

constexpr int kBlocks = 2;  // blocks per SM

// Recomputes the outputs of a band (`rows` rows from h0 on) that depend on an unsplittable value, or if `all` all of
// them, without tensor cores. All threads of the block call this.
template <int kFilters>
__device__ __noinline__ void fallback_band(const Dims& d, const ImageScale& by, bool all, int h0, int rows,
                                           const float* source, const float* k, float* out, FallbackScratch& room) {
  const int thread = threadIdx.x;
  __syncthreads();
  if (thread == 0) room.found.count = 0;
  __syncthreads();
  if (!all) find_unsplittable(d, source, by, h0 * d.W, (rows + d.K - 1) * d.W, &room.found, thread, kThreads);
  for (int base = 0; base < rows * d.OW; base += 128) {
    __syncthreads();
    if (thread == 0) room.listed = 0;
    __syncthreads();
    if (const int n = base + thread; thread < 128 && n < rows * d.OW) {
      const int corner = (h0 + n / d.OW) * d.W + n % d.OW;
      room.offsets[thread] = n, room.corners[thread] = corner;
      if (all || room.found.enters(d, source, corner, by))
        room.list[atomicAdd(&room.listed, 1)] = thread;  // the order does not matter: outputs are independent
    }
    __syncthreads();
    fallback_outputs(d, source, k, out, room.offsets, room.corners, room.list, room.listed, 0, kFilters, thread,
                     kThreads);
  }
}

// kFilters: number of filters, padded to a multiple of 8.
// kFew: whether there are fewer products than kMinProducts, so that the pixels' low parts must be multiplied with the
// weights' low parts too.
template <int kFilters, bool kFew>
__global__ void __launch_bounds__(bound_with_wgmma(kThreads), kBlocks)
    tensor_core_image_bands(const __grid_constant__ Dims d, const __grid_constant__ Tiling tiling,
                            const float* __restrict__ x, const float* __restrict__ k, float* __restrict__ y,
                            unsigned* tile_counter) {
#if FOPS_SM_90A
  extern __shared__ __align__(128) uint4 dynamic[];
  __shared__ float unscale[kFilters];
  __shared__ unsigned tops[kThreads / 32], slot_of_task;
  const int lane = threadIdx.x % 32, g = lane / 4, t = lane % 4;
  const int warp = __shfl_sync(0xffffffffu, threadIdx.x / 32, 0), group = warp / 4;  // shown to be warp-uniform
  const int slot = tiling.staged(d), low = tiling.chunks.slots() * slot, pixels = d.H * d.W, plane = d.OH * d.OW;
  uint4* weights = dynamic;                               // [unit][high, low][filter]
  uint4* staged = weights + tiling.steps * 4 * kFilters;  // [high, low][slot][position]
  float* outgoing_all = reinterpret_cast<float*>(staged + 2 * low);
  float* outgoing = outgoing_all + group * kFilters * kStride;  // [filter][position]

  const unsigned tasks = static_cast<unsigned>(d.B * tiling.bands);
  PersistentTiles schedule;
  const auto sample = [&](unsigned task) {
    const int count = d.C * pixels;
    return larger(0.0f, __ldg(x + 1LL * tiling.by_bands.divide(task) * count + sample_at(threadIdx.x, count)));
  };
  float sampled = schedule.now < tasks ? sample(schedule.now) : 0.0f;  // loaded while the weights are split

  const bool weights_need_fallback =
      split_weights<kFilters>(d, tiling, k, reinterpret_cast<float*>(staged), weights, unscale);

  // both: sums of products of the pixels' high parts with the filters' high parts, followed by those with the filters'
  // low parts. sum: the same for all finished chains. small: the sums for the pixels' low parts.
  constexpr int kSmall = kFew ? 2 * kFilters : kFilters;
  float both[kFilters] = {}, small[kSmall / 2] = {}, sum[kFilters] = {};
  for (; schedule.now < tasks; schedule.advance(&slot_of_task)) {
    const long long image = tiling.by_bands.divide(schedule.now);
    const int h0 = static_cast<int>(schedule.now - image * tiling.bands) * tiling.rows,
              rows = min(tiling.rows, d.OH - h0);
    const float *source = x + image * d.C * pixels, *band = source + h0 * d.W;
    float* out = y + image * d.M * plane + h0 * d.OW;

    const unsigned top = warp_max(__float_as_uint(sampled));
    if (lane == 0) tops[warp] = top;
    __syncthreads();  // also waits until all threads have read the previous band
    schedule.claim(&slot_of_task, tile_counter);
    unsigned largest = 0;
#pragma unroll
    for (int i = 0; i < kThreads / 32; ++i) largest = max(largest, tops[i]);
    const float scale = sampled_scale(__uint_as_float(largest));
    const ImageScale by = {scale, tiling.threshold / scale};
    const Band seen = stage_band(tiling, d, band, pixels - h0 * d.W, scale, staged, low);
    bulk_fence();
    const bool needs_fallback = __syncthreads_or(seen.infinite || seen.smallest < nonzero_bits(by.minimum));

    // Prefetches the next band into L2, and loads a sample of its image, while this one is multiplied.
    if (schedule.next < tasks) {
      sampled = sample(schedule.next);
      const long long its_image = tiling.by_bands.divide(schedule.next);
      const int its_h0 = static_cast<int>(schedule.next - its_image * tiling.bands) * tiling.rows;
      const char* from = reinterpret_cast<const char*>(x + its_image * d.C * pixels + its_h0 * d.W);
      const int bytes = min(tiling.staged(d), pixels - its_h0 * d.W) * 4;
      for (int c = warp; c < d.C; c += kThreads / 32)
        for (int i = lane * 128; i < bytes; i += 32 * 128) prefetch_l2(from + 4LL * c * pixels + i);
    }

    const float image_unscale = 1.0f / scale;
    const int positions = (rows - 1) * d.W + d.OW;
    // The lower 32 bits of descriptors. Their unit is 16 bytes, an entry, so a tap is a number that is added.
    const uint32_t weights_corner = core_descriptor(shared_address(weights), 2 * kFilters * 16, 128);
    const uint32_t staged_corner = core_descriptor(shared_address(staged), 0, 128);
    const auto multiply = [&](int first, int begin, int end) {
      image_bands::multiply<kFilters, 4>(both, small, staged_corner + first, low, weights_corner, tiling.places, begin,
                                         end);
    };
    // The outputs of the previous tile, which are stored while this tile is multiplied.
    float done[kFilters / 2];
    const auto store = [&](int first) {
      const int row = warp % 4 * 16 + g;
#pragma unroll
      for (int i = 0; i < kFilters / 2; ++i)
        outgoing[(i / 4 * 8 + 2 * t + i % 2) * kStride + row + i % 4 / 2 * 8] = done[i];
      warpgroup_sync(group);
      float v[kTile / 32][kFilters / 4];
#pragma unroll
      for (int n = 0; n < kTile / 32; ++n)
#pragma unroll
        for (int i = 0; i < kFilters / 4; ++i) v[n][i] = outgoing[(warp % 4 + 4 * i) * kStride + 32 * n + lane];
#pragma unroll
      for (int n = 0; n < kTile / 32; ++n) {
        const int at = first + 32 * n + lane, h = divide(at, tiling.inverse_W), column = at - h * d.W;
        const int filters = h < rows && column < d.OW ? d.M - warp % 4 : 0;
        float* to = out + warp % 4 * plane + h * d.OW + column;
#pragma unroll
        for (int i = 0; i < kFilters / 4; ++i, to += 4 * plane)
          if (4 * i < filters) *to = v[n][i];
      }
      warpgroup_sync(group);
    };
    int round = 0;
    do {
      const int first = round + group * kTile;
      multiply(first, 0, min(tiling.steps, tiling.chain));
      if (round > 0) store(first - kGroups * kTile);
      wgmma_wait(both);
#pragma unroll
      for (int i = 0; i < kFilters; ++i) sum[i] = both[i];
      int begin = tiling.chain;
      do {  // not `while`: if the loop could be skipped, the compiler would wait after each wgmma ("serialized")
        multiply(first, begin, min(begin + tiling.chain, tiling.steps));
        wgmma_wait(both);
#pragma unroll
        for (int i = 0; i < kFilters; ++i) sum[i] += both[i];
        begin += tiling.chain;
      } while (begin < tiling.steps);
      wgmma_wait(small);
#pragma unroll
      for (int i = 0; i < kFilters / 2; ++i) {
        const float2 back = *reinterpret_cast<const float2*>(unscale + i / 4 * 8 + 2 * t);
        const float v = scaled_sum<kFew>(sum, small, i);
        done[i] = v * (i % 2 ? back.y : back.x) * image_unscale;
      }
      round += kGroups * kTile;
    } while (round < positions);
    store(round - kGroups * kTile + group * kTile);

    if (needs_fallback || weights_need_fallback)
      fallback_band<kFilters>(d, by, weights_need_fallback, h0, rows, source, k, out,
                              *reinterpret_cast<FallbackScratch*>(outgoing_all));
  }
#endif
}

// Dynamic shared memory per block: of the 228 KB of an SM on Hopper, 1 KB is reserved per block, and 512 bytes are
// static.
constexpr size_t kShared = 228 * 1024 / kBlocks - 1024 - 512;

size_t weight_bytes(const Tiling& tiling, int filters) { return 64 * static_cast<size_t>(tiling.steps) * filters; }
size_t band_bytes(const fops_conv& c, const Tiling& tiling, int filters) {
  const size_t staged = static_cast<size_t>(tiling.rows + c.K - 1) * c.W * tiling.chunks.slots();
  return 32 * staged + 4 * kGroups * filters * kStride;
}

// Cuts an image into as few bands as possible. A band must fit into a block's shared memory together with all weights.
// There are at least `minimum` bands, unless both warpgroups can compute a band's positions at once. Returns false if
// no band fits.
bool cut(const fops_conv& c, int64_t minimum, Tiling* tiling) {
  const int64_t OH = out_h(c);
  const int filters = std::max(16, static_cast<int>(ceil_div(c.M, 8)) * 8);
  const auto fits = [&] {
    const int64_t staged = (tiling->rows + c.K - 1) * c.W;
    return weight_bytes(*tiling, filters) + band_bytes(c, *tiling, filters) <= kShared &&
           staged * tiling->chunks.slots() < 1 << 16 && staged < 1 << 14;  // limits of `divide` and Tiling::places
  };
  for (int64_t bands = 1; bands <= OH; ++bands) {
    tiling->rows = static_cast<int>(ceil_div(OH, bands));
    tiling->bands = static_cast<int>(ceil_div(OH, tiling->rows));
    const int64_t positions = (tiling->rows - 1) * c.W + out_w(c);
    if (fits() && (bands >= minimum || positions <= kGroups * kTile || tiling->rows == 1)) return true;
  }
  return false;
}

// Sets *tiling, with bands for a large batch. The choice of slots does not depend on the batch size, because the
// results would then depend on it. Returns false if no tiling fits.
bool tiling_for(const fops_conv& c, Tiling* tiling) {
  const int C = static_cast<int>(c.C), K = static_cast<int>(c.K);
  float minimum = 0.0f;
  Tiling one = {};
  for (int narrow = 4; narrow >= 1; narrow /= 2) {
    if (!chunks_of(C, K, narrow, &one.chunks)) continue;
    one.chunks.per_chunk = one.chunks.slots();
    one.steps = one.chunks.steps_of(0);
    one.chain = max_chain_steps(C * K * K);
    if (one.steps <= one.chain || one.steps > kMaxSteps || !cut(c, 1, &one)) continue;
    // The cost in steps: staging a slot takes as long as two steps, and K - 1 rows between two bands are staged twice.
    const float cost = one.steps + 2.0f * one.chunks.slots() * (one.rows + K - 1) / one.rows;
    if (minimum == 0.0f || cost < minimum) minimum = cost, *tiling = one;
  }
  tiling->inverse_W = inverse_of(static_cast<uint32_t>(c.W));
  tiling->threshold = min_scaled(static_cast<float>(C * K * K));
  return minimum > 0.0f;
}

template <int kFilters, bool kFew>
fops_status launch(const fops_conv& c, Tiling tiling, const float* x, const float* k, float* y, cudaStream_t stream) {
  auto* kernel = tensor_core_image_bands<kFilters, kFew>;
  const size_t weights = weight_bytes(tiling, kFilters), band = band_bytes(c, tiling, kFilters);
  const size_t filter_bytes = 4 * static_cast<size_t>(c.C * c.K * c.K | 1);
  const size_t room = std::max(band, std::min(c.M * filter_bytes, kShared - weights));
  tiling.piece = kFilters;
  if (c.M * filter_bytes > room)
    // If a row of a band fits, one filter fits too.
    for (tiling.piece = 8; tiling.piece * filter_bytes > room;) tiling.piece /= 2;
  const size_t shared = weights + room;
  return in_pieces(c, tiling.bands, [&](const Dims& piece, long long first) {
    unsigned grid = 0;
    FOPS_TRY(resident_grid(kernel, kThreads, shared, piece.B * tiling.bands, &grid));
    TileCounter tile_counter(stream);
    FOPS_TRY(tile_counter.reserve(piece.B * tiling.bands, grid));
    kernel<<<grid, kThreads, shared, stream>>>(piece, tiling, x + first * image_floats(c), k,
                                               y + first * output_floats(c), tile_counter.counters());
    return launched("tensor-core");
  });
}

template <int kFilters>
fops_status run(const fops_conv& c, const Tiling& tiling, const float* x, const float* k, float* y,
                cudaStream_t stream) {
  return c.C * c.K * c.K < kMinProducts ? launch<kFilters, true>(c, tiling, x, k, y, stream)
                                        : launch<kFilters, false>(c, tiling, x, k, y, stream);
}

bool usable() { return has_code_here(tensor_core_image_bands<24, false>, kThreads); }

// Whether most rows of a band are also staged for other bands, or most of a tile is empty. Then any_shape.cu is faster.
bool thin(const fops_conv& c, const Tiling& tiling) {
  const int64_t positions = (tiling.rows - 1) * c.W + out_w(c);
  return tiling.bands > 1 && (tiling.rows < c.K - 1 || 2 * positions <= kGroups * kTile);
}

// Whether any_shape.cu is faster, because it loads rows of pixels by TMA: few filters over many channels. (For one
// image it is slower, because it needs two launches.)
bool faster_by_rows(const fops_conv& c) {
  return has_rows(c) && !many_images_per_row(c) && c.C % 16 == 0 && c.C * c.K * c.K >= 576 &&
         (c.M <= 8 || (c.M <= 16 && c.C >= 64));
}

}  // namespace

bool takes_image_bands(const fops_conv& c) {
  Tiling tiling;
  return takes_any(c) && c.x_type == FOPS_FLOAT32 && c.C > 1 && c.C <= 256 && c.M <= 32 && c.K <= kMaxK &&
         c.C * c.K * c.K >= kFewestProducts && c.W >= 2 && c.H <= 4096 && c.W <= 4096 && tiling_for(c, &tiling) &&
         (c.M <= 24 || tiling.rows >= 2 * (c.K - 1)) && usable() &&
         !((thin(c, tiling) || faster_by_rows(c)) && takes_any_shape(c));
}

fops_status run_image_bands(const fops_conv& c, const void* x, const float* k, float* y, cudaStream_t stream) {
  const float* input = static_cast<const float*>(x);
  Tiling tiling;
  int sms = 0;
  FOPS_TRY(count_sms(&sms));
  const bool fits = tiling_for(c, &tiling);
  bool taken = false;
  if (fits) FOPS_TRY(run_image_bands_resident(c, tiling.chunks, tiling.chain, sms, input, k, y, stream, &taken));
  if (taken) return FOPS_OK;
  if (!fits || !cut(c, ceil_div(sms, c.B), &tiling))
    return fail(FOPS_UNSUPPORTED, "tensor-core: this shape does not fit into shared memory");
  tiling.by_bands = Divisor(static_cast<uint32_t>(tiling.bands));
  const uint32_t W = static_cast<uint32_t>(c.W), slot = static_cast<uint32_t>(tiling.rows + c.K - 1) * W;
  tiling.inverse_staged = inverse_of(slot);
  for (int step = 0; step < tiling.steps; ++step) {
    tiling.places[step] = place_of(tiling.chunks, 0, step, slot, W);
    for (const int half : {0, 1}) tiling.origins[2 * step + half] = origin_of(tiling.chunks, 0, step, half);
  }
  switch (ceil_div(c.M, 8)) {
    case 1:
    case 2: return run<16>(c, tiling, input, k, y, stream);
    case 3: return run<24>(c, tiling, input, k, y, stream);
    default: return run<32>(c, tiling, input, k, y, stream);
  }
}

}  // namespace fops
