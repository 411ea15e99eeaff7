// Several channels and few filters, on Hopper: a position is two outputs, one above the other.
//
//   pixels, row h    row 0             A row of pixels is multiplied with one or two rows of the filters, as listed here.
//           h + 1    rows 1 and 0      The filters' rows are in shared memory in reverse order, so that the two rows are
//           h + K    row K - 1         neighbours in B: | row 1, for output h | row 0, for output h + 1 |
//
// A position's pixels are read once for both outputs, as operands in registers, and the instruction has twice as many
// columns. (In image_bands.cu a wgmma reads 64 positions for the 24 columns of 24 filters, and this reading is the
// limit.)
// Costs: the first and last row of pixels are multiplied by zeros for one of the outputs: with 5x5, one product of six.
// Gains: half as many reads of pixels. Shared memory is the limit now (docs/notebook.md).
#include "conv/hopper/variants/output_row_pairs.cuh"

#include <utility>

#include "conv/hopper/pipeline.cuh"
#include "conv/hopper/scheduler.cuh"
#include "conv/hopper/variants.h"
#include "gpu/isa/mma.cuh"

namespace fops {
namespace {

using namespace output_row_pairs;

// Recomputes the outputs of a tile that depend on an unsplittable value, or if `all` all of them, by the float32
// fallback. A warpgroup calls this.
template <int kFilters, int kRows, typename Y>
__device__ __noinline__ void fallback_tile(const Dims& d, const Tiling& tiling, int group, const Task& task, int first,
                                           int positions, bool all, float scale, const float* x, const float* k,
                                           const Y& out, FallbackScratch& room) {
  static_assert(kTile * kRows == 128, "a thread an output row's position");
  const int thread = threadIdx.x % 128, n = first + thread % kTile;
  const float* source = x + task.image * d.C * d.H * d.W;
  const ImageScale by = {scale, tiling.threshold / scale};
  const int i = divide(n, tiling.inverse_OW), column = n - i * d.OW, h = i * kRows + thread / kTile;
  warpgroup_sync(group);
  room.offsets[thread] = h * d.OW + column, room.corners[thread] = (task.h0 + h) * d.W + column;
  if (thread == 0) room.listed = room.found.count = 0;
  warpgroup_sync(group);
  if (!all) {
    const int last = min(first + kTile, positions) - 1, top = divide(first, tiling.inverse_OW) * kRows;
    const int rows = min((divide(last, tiling.inverse_OW) + 1) * kRows, task.rows) - top;
    find_unsplittable(d, source, by, (task.h0 + top) * d.W, (rows + d.K - 1) * d.W, &room.found, thread, 128);
  }
  warpgroup_sync(group);
  if (n < positions && h < task.rows && (all || room.found.enters(d, source, room.corners[thread], by)))
    room.list[atomicAdd(&room.listed, 1)] = thread;  // the order does not matter: outputs are independent
  warpgroup_sync(group);
  fallback_outputs(d, source, k, out, room.offsets, room.corners, room.list, room.listed, 0, kFilters, thread, 128);
  warpgroup_sync(group);
}

// Operands A of a row of pixels for all steps: the high parts or the low parts.
//
// load_matrices loads four 8 x 8 matrices in the layout that wgmma needs. Lane l of warp w of a warpgroup passes the
// address of unit l / 16 of the step at position 16 w + l % 16.
template <typename F>
struct Operands {
  static constexpr int kSteps = F::kSteps;
  uint32_t of[kSteps][4];
  // Loads steps kBegin to kEnd - 1. The address of this lane's unit of step s in shared memory is units[s] + behind. It
  // is computed from units[Form::like(s)], so that several steps need one register.
  template <int kBegin, int kEnd>
  __device__ __forceinline__ void load(const uint32_t (&units)[kSteps], uint32_t behind) {
    load<kBegin>(units, behind, std::make_integer_sequence<int, kEnd - kBegin>());
  }
  template <int kBegin, int... kStep>
  __device__ __forceinline__ void load(const uint32_t (&units)[kSteps], uint32_t behind,
                                       std::integer_sequence<int, kStep...>) {
    (load_step<kBegin + kStep, F::like(kBegin + kStep)>(units, behind), ...);
  }
  template <int kStep, int kLike>
  __device__ __forceinline__ void load_step(const uint32_t (&units)[kSteps], uint32_t behind) {
    load_matrices(of[kStep], units[kLike] + behind + 16 * (F::column(2 * kStep) - F::column(2 * kLike)));
  }
  // Called after the wait for the wgmma that read these steps: see keep_register.
  template <int kBegin, int kEnd>
  __device__ __forceinline__ void keep() {
#pragma unroll
    for (int s = kBegin; s < kEnd; ++s)
#pragma unroll
      for (int i = 0; i < 4; ++i) keep_register(of[s][i]);
  }
};

// Splits a warp's outputs, which have been scaled, and stores them as halves in the order (OH, OW, M). There must be
// all kFilters filters. For one output row at a time, the warp writes the outputs of its 16 positions, from `first` on,
// to `room` in their order in memory: high parts, then low parts. Then each lane stores eight outputs at a time, and a
// warp's stores are contiguous.
template <int kFilters, int kRows, int kSums>
__device__ __forceinline__ void store_halves(const Dims& d, const Tiling& tiling, const Task& task, int first,
                                             int positions, const float (&sum)[kSums], const HalvesOut& out,
                                             uint4* room) {
  constexpr int kEach = kFilters / 8, kUnits = 16 * kEach;  // units of eight outputs: per position; per row
  static_assert(2 * kUnits % 32 == 0, "");
  static_assert(4 * 2 * kUnits * sizeof(uint4) <= kFilters * kStride * sizeof(float), "four warps' outputs have room");
  const int lane = threadIdx.x % 32;
  uint32_t* words = reinterpret_cast<uint32_t*>(room) + lane / 4 * 4 * kEach + lane % 4;
  int to[2 * kUnits / 32],    // offsets of this lane's units in the output
      left[2 * kUnits / 32];  // number of the task's rows from the unit's first row on
#pragma unroll
  for (int i = 0; i < 2 * kUnits / 32; ++i) {
    const int unit = (lane + 32 * i) % kUnits, at = first + unit / kEach, group = divide(at, tiling.inverse_OW);
    left[i] = at < positions ? task.rows - group * kRows : 0;
    to[i] = (group * (kRows - 1) * d.OW + at) * kFilters + unit % kEach * 8;
  }
#pragma unroll
  for (int row = 0; row < kRows; ++row) {
    __syncwarp();  // waits until all lanes have read the previous row
#pragma unroll
    for (int part = 0; part < 2; ++part)
#pragma unroll
      for (int j = 0; j < kEach; ++j) {
        const float* of = sum + row * kFilters / 2 + 4 * j + 2 * part;
        const TwoHalves two(of[0], of[1]);
        words[8 * part * 4 * kEach + 4 * j] = bits(two.hi);
        words[(kUnits + 8 * part * kEach + j) * 4] = bits(two.lo);
      }
    __syncwarp();
    uint4 v[2 * kUnits / 32];
#pragma unroll
    for (int i = 0; i < 2 * kUnits / 32; ++i) v[i] = room[lane + 32 * i];
#pragma unroll
    for (int i = 0; i < 2 * kUnits / 32; ++i) {
      __half* half = lane + 32 * i < kUnits ? out.hi : out.lo;
      if (row < left[i]) store_global(reinterpret_cast<uint4*>(half + to[i] + row * d.OW * kFilters), v[i]);
    }
  }
}

// Y: float* or HalvesOut (epilogue.cuh).
template <typename F, typename Y>
__global__ void __launch_bounds__(bound_with_wgmma(kThreads), 1)
    tensor_core_output_row_pairs(const __grid_constant__ Dims d, const __grid_constant__ Tiling tiling,
                                 const float* __restrict__ x, const float* __restrict__ k, const Y y,
                                 unsigned* tile_counter) {
#if FOPS_SM_90A
  constexpr bool kHalves = std::is_same_v<Y, HalvesOut>;
  constexpr int kFilters = F::kFilters, kRows = F::kRows, kStored = F::kStored, kColumns = F::kColumns;
  constexpr int kSteps = F::kSteps, kSums = kFilters / 2;  // kSums: per output row and lane
  constexpr int kHalf = (kSteps + 1) / 2;                  // number of steps whose high parts are loaded first
  constexpr int kInputRows = F::K + kRows - 1;             // rows of pixels that a group of output rows needs
  static_assert(kInputRows % kRows == 0, "rows of pixels are multiplied a group at a time");
  extern __shared__ __align__(128) uint4 dynamic[];
  __shared__ Shared<kFilters> shared;
  const int warp = __shfl_sync(0xffffffffu, threadIdx.x / 32, 0), group = warp / 4;  // shown to be warp-uniform
  const int lane = threadIdx.x % 32, g = lane / 4, t = lane % 4;
  const Groups<kRows> groups(d, tiling);
  const int slot_stride = groups.slot_entries(d, tiling), band_stride = 2 * F::kSlots * slot_stride;
  uint4 *weights = dynamic, *pixel_stages = weights + F::kWeights;

  if (threadIdx.x == 0) {
    for (int i = 0; i < kBuffers; ++i) {
      barrier_init(&shared.full[i], kProducerThreads);
      barrier_init(&shared.empty[i], 128 * kConsumerGroups);
      shared.needs_fallback[i] = 0;
    }
    barrier_init(&shared.room_is_free, 4 * kConsumerGroups);
    barrier_init_end();
  }
  __syncthreads();
  if (!tiling.separate_weight_staging) {
    stage_first<F>(d, tiling, shared, x, pixel_stages);
    __syncthreads();
  }
  if (group == kConsumerGroups) {
    setmaxnreg_dec<kProducerRegisters>();
    stage_bands<F>(d, tiling, shared, x, pixel_stages, tile_counter);
    return;
  }
  setmaxnreg_inc<kConsumerRegisters>();

  float* outgoing_all = reinterpret_cast<float*>(pixel_stages + kBuffers * band_stride);
  float* outgoing = outgoing_all + group * kFilters * kStride;
  float* room = tiling.separate_weight_staging
                    ? outgoing_all + kConsumerGroups * kFilters * kStride
                    : reinterpret_cast<float*>(pixel_stages + band_stride);  // after the first band
  const bool weights_need_fallback =
      split_weights<F>(d, tiling.threshold, k, room, &shared.room_is_free, weights, shared.unscale);
  const uint32_t corner = static_cast<uint32_t>(core_descriptor(shared_address(weights), 2 * kStored * 16, 128));
  const int plane = d.OH * d.OW;
  // In bytes: from high to low parts; from one row of pixels to the next; the same from one group of rows to the next.
  const uint32_t to_lows = 16 * slot_stride, row_bytes = 16 * d.W, to_group = row_bytes + 16 * tiling.pad;
  uint32_t units[kSteps];  // byte offset of this lane's unit of a step from its position's first pixel
#pragma unroll
  for (int s = 0; s < kSteps; ++s)
    units[s] = 16 * (lane < 16 ? 2 * F::slot(2 * s) * slot_stride + F::column(2 * s)
                               : 2 * F::slot(2 * s + 1) * slot_stride + F::column(2 * s + 1));
  const unsigned tasks = static_cast<unsigned>(d.B * tiling.bands);
  PipelineState state;
  uint32_t number = 0;
  int tile = group;  // number of this warpgroup's next tile in the task
#pragma unroll 1
  for (;;) {
    barrier_wait(&shared.full[state.stage], state.phase);
    const unsigned at = __shfl_sync(0xffffffffu, shared.task[state.stage], 0);  // shows that this is warp-uniform
    if (at >= tasks) break;
    const Task task(tiling, d, at);
    const Y out = advanced(image_of(y, task.image, d.M, plane), output_at(y, 0, task.h0 * d.OW, d.M, plane));
    const int positions = (task.rows + kRows - 1) / kRows * d.OW, tiles = (positions + kTile - 1) / kTile;
    const bool needs_fallback = shared.needs_fallback[state.stage] == ++number || weights_need_fallback;
    const float image_unscale = shared.image_unscale[state.stage];
    const auto read = [&] {
      __syncwarp();
      barrier_arrive(&shared.empty[state.stage]);
    };
    if (tile >= tiles) read();
#pragma unroll 1
    for (; tile < tiles; tile += kConsumerGroups) {
      const int first = tile * kTile;
      const int mine = min(first + warp % 4 * 16 + lane % 16, positions - 1), its = divide(mine, tiling.inverse_OW);
      const uint4* pixels = pixel_stages + state.stage * band_stride + its * groups.of + mine - its * d.OW;
      uint32_t at_units[kSteps];  // addresses of the units in the row of pixels that is loaded next
#pragma unroll
      for (int s = 0; s < kSteps; ++s) at_units[s] = shared_address(pixels) + units[s];
      // high: a row of pixels' products of high parts, [output row][accumulator of a lane]. small: the products with a
      // low part of all rows of pixels. sum: the products of high parts of the previous rows.
      float high[kRows * kSums] = {}, small[kRows * kSums] = {}, sum[kRows * kSums] = {};
      Operands<F> highs, lows;
      lows.template load<0, kSteps>(at_units, to_lows);
#pragma unroll 1
      for (int left = kInputRows - kRows; left >= 0; left -= kRows) {
        // The shuffle shows the compiler that all lanes have the same value. Then it keeps this, and the descriptors of
        // all steps, in uniform registers, which saves four instructions per product.
        const uint32_t windows = __shfl_sync(0xffffffffu, corner + left * kFilters, 0);
        const uint32_t to_next = left > 0 ? to_group : 0;
#pragma unroll
        for (int row = kRows - 1; row >= 0; --row) {  // row of the group of rows of pixels, counted from its last
          const uint32_t window = windows + row * kFilters;
          wgmma_fence();
#pragma unroll
          for (int s = 0; s < kSteps; ++s) wgmma_rs<kColumns>(small, lows.of[s], window + s * 4 * kStored, 1);
          wgmma_commit();
          // When the first half of the previous row's steps are done, this row's high parts are loaded into their
          // registers; then those of the second half.
          wgmma_wait_but<2>();
          highs.template keep<0, kHalf>();
          highs.template load<0, kHalf>(at_units, 0);
          wgmma_wait_but<1>();
          highs.template keep<kHalf, kSteps>();
          highs.template load<kHalf, kSteps>(at_units, 0);
          wgmma_fence();
#pragma unroll
          for (int s = 0; s < kHalf; ++s) wgmma_rs<kColumns>(high, highs.of[s], window + s * 4 * kStored, s > 0);
          wgmma_fence();
#pragma unroll
          for (int s = kHalf; s < kSteps; ++s) wgmma_rs<kColumns>(high, highs.of[s], window + s * 4 * kStored, 1);
          wgmma_commit();
#pragma unroll
          for (int s = 0; s < kSteps; ++s) {
            wgmma_rs<kColumns>(small, highs.of[s], window + s * 4 * kStored + kStored, 1);
            if (s + 1 == kHalf) wgmma_commit();
          }
          wgmma_commit();
          wgmma_wait_but<3>();
          lows.template keep<0, kSteps>();
          // After the last row, the same row is loaded again, because a branch would be slower. (The next row may not
          // be read: a producer may be writing it.)
#pragma unroll
          for (int s = 0; s < kSteps; ++s) at_units[s] += row > 0 ? row_bytes : to_next;
          lows.template load<0, kSteps>(at_units, to_lows);
          wgmma_wait<2>(high);
#pragma unroll
          for (int i = 0; i < kRows * kSums; ++i) sum[i] += high[i];
        }
      }
      wgmma_wait(small);
      highs.template keep<0, kSteps>();
      if (tile + kConsumerGroups >= tiles) read();

      float back_image = image_unscale;
      if constexpr (kHalves) back_image *= out.scale;
#pragma unroll
      for (int i = 0; i < kSums; ++i) {
        const float back = shared.unscale[i / 4 * 8 + 2 * t + i % 2] * back_image;
#pragma unroll
        for (int row = 0; row < kRows; ++row)
          sum[row * kSums + i] = (sum[row * kSums + i] + small[row * kSums + i] * (1.0f / kLowScale)) * back;
      }
      if constexpr (kHalves) {
        if (out.relu)  // a branch here saves two instructions per output
#pragma unroll
          for (int i = 0; i < kRows * kSums; ++i) sum[i] = with_relu(out, sum[i]);
        store_halves<kFilters, kRows>(d, tiling, task, first + warp % 4 * 16, positions, sum, out,
                                      reinterpret_cast<uint4*>(outgoing) + warp % 4 * 4 * kFilters);
      }
#pragma unroll
      for (int row = 0; row < kRows && !kHalves; ++row) {
#pragma unroll
        for (int i = 0; i < kSums; ++i)
          outgoing[(i / 4 * 8 + 2 * t + i % 2) * kStride + warp % 4 * 16 + g + i % 4 / 2 * 8] = sum[row * kSums + i];
        warpgroup_sync(group);
        float v[kTile / 32][kFilters / 4];
#pragma unroll
        for (int n = 0; n < kTile / 32; ++n)
#pragma unroll
          for (int i = 0; i < kFilters / 4; ++i) v[n][i] = outgoing[(warp % 4 + 4 * i) * kStride + 32 * n + lane];
#pragma unroll
        for (int n = 0; n < kTile / 32; ++n) {
          const int position = first + 32 * n + lane, i = divide(position, tiling.inverse_OW), h = i * kRows + row;
          const int filters = position < positions && h < task.rows ? d.M - warp % 4 : 0;
          int to = warp % 4 * plane + h * d.OW + position - i * d.OW;
#pragma unroll
          for (int m = 0; m < kFilters / 4; ++m, to += 4 * plane)
            if (4 * m < filters) put(out, to, v[n][m]);
        }
        warpgroup_sync(group);
      }
      if (needs_fallback)
        fallback_tile<kFilters, kRows>(d, tiling, group, task, first, positions, weights_need_fallback,
                                       1.0f / image_unscale, x, k, out, *reinterpret_cast<FallbackScratch*>(outgoing));
    }
    tile -= tiles;
    state.next(kBuffers);
  }
#endif
}

// Minimum number of tasks per block for which a counter is used; setting it to zero takes a launch.
constexpr long long kManyTasks = 32;

constexpr size_t kShared = 227 * 1024 - 512;

// Bytes of shared memory for the split weights, a band, the outputs of all warpgroups, and the original weights.
// minimum(): if the original weights are in the space of later bands and outputs; maximum(): if they have their own
// space.
template <typename F>
struct Bytes {
  size_t weights, band, outgoing, room;
  Bytes(const Dims& d, const Tiling& tiling)
      : weights(16 * F::kWeights),
        band(32 * F::kSlots * static_cast<size_t>(Groups<F::kRows>(d, tiling).slot_entries(d, tiling))),
        outgoing(4 * kConsumerGroups * static_cast<size_t>(F::kFilters) * kStride),
        room(4 * static_cast<size_t>(F::kFilters) * room_stride(d.C * d.K * d.K)) {}
  size_t minimum() const { return weights + band + std::max((kBuffers - 1) * band + outgoing, room); }
  size_t maximum() const { return weights + kBuffers * band + outgoing + room; }
};

// Cuts an image into as few bands as possible. A band must fit into shared memory together with the weights. There are
// at least `minimum` bands, unless a band has no more positions than a tile. Returns false if no band fits.
template <typename F>
bool cut(const fops_conv& c, int64_t minimum, Tiling* tiling) {
  const int64_t groups = ceil_div(out_h(c), F::kRows);
  tiling->pad = Groups<F::kRows>::pad(dims(c));
  for (int64_t bands = 1; bands <= groups; ++bands) {
    const int64_t band_stride = ceil_div(groups, bands);
    tiling->rows = static_cast<int>(band_stride * F::kRows);
    tiling->bands = static_cast<int>(ceil_div(groups, band_stride));
    const bool fits = band_stride * out_w(c) < 1 << 16 && Bytes<F>(dims(c), *tiling).minimum() <= kShared;
    if (fits && (bands >= minimum || band_stride * out_w(c) <= kTile || band_stride == 1)) return true;
  }
  return false;
}

template <typename F, typename Y>
fops_status launch(const fops_conv& c, const float* x, const float* k, const Y& y, cudaStream_t stream) {
  auto* kernel = tensor_core_output_row_pairs<F, Y>;
  int sms = 0;
  FOPS_TRY(count_sms(&sms));
  Tiling tiling = {};
  if (!cut<F>(c, ceil_div(sms, c.B), &tiling))
    return fail(FOPS_UNSUPPORTED, "tensor-core: this shape does not fit into shared memory");
  tiling.by_bands = Divisor(static_cast<uint32_t>(tiling.bands));
  tiling.inverse_OW = inverse_of(static_cast<uint32_t>(out_w(c)));
  tiling.inverse_group = inverse_of(static_cast<uint32_t>(F::kRows * c.W));
  tiling.threshold = min_scaled(static_cast<float>(c.C * c.K * c.K));
  const Bytes<F> bytes(dims(c), tiling);
  tiling.separate_weight_staging = bytes.maximum() <= kShared;
  const size_t shared = tiling.separate_weight_staging ? bytes.maximum() : bytes.minimum();
  FOPS_TRY(allow_shared(kernel, shared));
  return in_pieces(c, tiling.bands, [&](const Dims& piece, long long first) {
    const long long tasks = piece.B * tiling.bands;
    const unsigned grid = static_cast<unsigned>(std::min<long long>(tasks, sms));
    TileCounter tile_counter(stream);
    if (tasks >= kManyTasks * grid) FOPS_TRY(tile_counter.reserve(tasks, grid));
    kernel<<<grid, kThreads, shared, stream>>>(piece, tiling, x + first * image_floats(c), k,
                                               image_of(y, first, piece.M, piece.OH * piece.OW),
                                               tile_counter.counters());
    return launched("tensor-core");
  });
}

using Fa2019 = Form<5, 1, true, 24, 2>;  // the second layers of fa2019 and fa2018
using Fa2018 = Form<7, 1, true, 24, 2>;

template <typename Call>
bool with_form(const fops_conv& c, Call f) {
  const auto takes = [&](auto form) {
    using F = decltype(form);
    Tiling tiling = {};
    return c.K == F::K && c.C <= F::kChannels && c.C > F::kChannels - 2 && c.M <= F::kFilters &&
           c.M > F::kFilters - 8 && cut<F>(c, 1, &tiling);
  };
  if (takes(Fa2019())) return f(Fa2019()), true;
  if (takes(Fa2018())) return f(Fa2018()), true;
  return false;
}

template <typename Y>
fops_status run_any(const fops_conv& c, const void* x, const float* k, const Y& y, cudaStream_t stream) {
  fops_status status = FOPS_OK;
  with_form(c, [&](auto form) { status = launch<decltype(form)>(c, static_cast<const float*>(x), k, y, stream); });
  return status;
}

bool usable() { return has_code_here(tensor_core_output_row_pairs<Fa2019, float*>, kThreads); }

}  // namespace

bool takes_output_row_pairs(const fops_conv& c) {
  return takes_any(c) && c.x_type == FOPS_FLOAT32 && c.C > 1 && out_w(c) >= 2 && c.H <= 4096 && c.W <= 4096 &&
         with_form(c, [](auto) {}) && usable();
}

fops_status run_output_row_pairs(const fops_conv& c, const void* x, const float* k, float* y, cudaStream_t stream) {
  return run_any(c, x, k, y, stream);
}
fops_status run_output_row_pairs(const fops_conv& c, const void* x, const float* k, const HalvesOut& y,
                                 cudaStream_t stream) {
  return run_any(c, x, k, y, stream);
}

}  // namespace fops
