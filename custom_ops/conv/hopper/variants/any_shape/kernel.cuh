// The kernel of any_shape.cu.
#pragma once

#include <cstddef>
#include <type_traits>

#include "conv/hopper/mma.cuh"
#include "conv/hopper/pipeline.cuh"
#include "conv/hopper/variants/any_shape/cluster_sums.cuh"
#include "conv/hopper/variants/any_shape/outputs.cuh"
#include "conv/hopper/variants/any_shape/raw_rows.cuh"
#include "gpu/isa/dependents.cuh"

namespace fops::hopper {

// The roles of the warpgroups:
//
//   0, 1: consumers  <- buffers of staged pixels  <- 2, 3, except for one warp: split and stage pixels <- global memory
//                    <- stages of weights         <- that warp: loads weights by TMA                   <- global memory
//
// If TMA loads rows of pixels, that warp starts these copies too, and the other producer warps split pixels from there
// (raw_rows.cuh). The mbarriers `full` complete when a buffer or a stage may be read, the mbarriers `empty` when it may
// be written.
constexpr int kThreads = kConsumerThreads + kProducerThreads + 32;
static_assert(kThreads == 512, "registers are dealt out to four warpgroups");

// The form of a block's weights. kTaps of 0: a tile's rows are 64 filters, with the low parts in a separate tile. 1: rows
// are the high and low parts of 32 filters ("stacked"). 2, 4 or 8: those of 16, 8 or 4 filters at 2, 4 or 8 taps.
// kTiles: number of tiles of filters per block. With two, the two consumer warpgroups have different filters at the
// same positions; with one, they have the same filters at different positions.
template <int kTaps, int kTiles>
struct Form {
  static constexpr int kParts = kTaps > 0 ? 1 : 2;  // weight tiles in memory per tile of filters
  static constexpr int kFilters = kTaps > 0 ? kTileRows / 2 / kTaps : kTileRows;  // filters per tile
  static constexpr int kStepBytes = kTiles * kParts * kTileBytes;
  using Steps = std::conditional_t<(kTaps > 0), UpToEight, UpToFour>;  // steps per group: see Choice::group
};

// What the producers found in a buffer's pixels. Each field is the number of the latest chunk (from 1) with the
// property.
struct Flags {
  uint32_t low;             // some low part is not zero
  uint32_t needs_fallback;  // some value is unsplittable: see `ImageScale` in split.cuh
};

struct Shared {  // static shared memory; stages and buffers are in dynamic shared memory
  uint64_t full_pixels[kMaxBuffers], empty_pixels[kMaxBuffers], full_weights[kMaxStages], empty_weights[kMaxStages];
  uint64_t full_rows[kMaxPieces], empty_rows[kMaxPieces];
  Flags flags[kMaxBuffers];
  Columns columns[2];  // per consumer warpgroup
};

static_assert(sizeof(Shared) == kSharedBytes, "choose.cpp leaves room for it");

// How the work is divided. columns: positions per wgmma. strips: whether tasks consist of strips. parts: whether the
// blocks of a cluster divide a task's depth, in whole segments. raw: whether TMA loads rows of pixels (raw_rows.cuh).
template <int columns, bool strips = false, bool parts = false, bool raw = false>
struct Cut {
  static constexpr int kColumns = columns;
  static constexpr bool kStrips = strips, kParts = parts, kRaw = raw;
  static constexpr bool kEarly = columns == kFewColumns;  // whether `Plan::early` may be set
};

// kLong: whether there may be more steps than a chain has. If pixels may be staged early (Cut::kEarly), a thread has
// 96 registers, which leaves registers for a block of pack_weights on the same SM; then registers are not moved between
// warpgroups.
template <int kTaps, int kTiles, typename Cut, bool kLong = true>
__global__ void __launch_bounds__(bound_with_wgmma(Cut::kEarly ? kThreads + 128 : kThreads), 1)
    tensor_core_any_shape(const __grid_constant__ Dims d, const __grid_constant__ Plan plan,
                          const __grid_constant__ Steps steps, bool bytes, const void* __restrict__ x,
                          const float* __restrict__ k, float* __restrict__ y, Packed packed) {
#if FOPS_SM_90A
  using form = Form<kTaps, kTiles>;
  using Span = SpanOf<Cut::kStrips>;
  constexpr int kColumns = Cut::kColumns;
  constexpr bool kParts = Cut::kParts;
  extern __shared__ __align__(128) uint8_t dynamic[];
  __shared__ Shared shared;
  uint8_t* weight_stages = dynamic;
  uint4* buffers = reinterpret_cast<uint4*>(dynamic + plan.stages * plan.group_bytes);
  float* outgoing_all = reinterpret_cast<float*>(buffers + plan.buffers * 2 * plan.chunks.per_chunk * plan.staged);
  const int plane = plan.staged, buffer_slots = 2 * plan.chunks.per_chunk * plane;  // in units of 16 bytes
  const unsigned part = kParts ? blockIdx.x % plan.parts : 0, parts = kParts ? plan.parts : 1;
  const uint32_t first_task = blockIdx.x / parts, stride = gridDim.x / parts;
  const int begin = kParts ? plan.begin(part) : 0, end = kParts ? plan.begin(part + 1) : plan.chunk_count;
  const int last_chunk = plan.chunk_count - 1;
  constexpr bool kRaw = Cut::kRaw;
  const RawRows raw(plan, outgoing_all + kOutgoingBytes / sizeof(float), shared.full_rows, shared.empty_rows);

  if constexpr (kRaw) raw.clear(plan);
  if (threadIdx.x == 0) {
    for (int i = 0; i < plan.buffers; ++i) {
      shared.flags[i] = {0, 0};
      barrier_init(&shared.full_pixels[i], kProducerThreads);
      barrier_init(&shared.empty_pixels[i], kConsumerThreads / 32);
    }
    for (int i = 0; i < plan.stages; ++i) {
      barrier_init(&shared.full_weights[i], 1);
      barrier_init(&shared.empty_weights[i], kConsumerThreads / 32);
    }
    if constexpr (kRaw) raw.init_barriers(plan.pieces);
    shared.columns[0].fallback = shared.columns[1].fallback = 0;
    barrier_init_end();
  }
  __syncthreads();

  const int team = __shfl_sync(0xffffffffu, threadIdx.x / 128, 0);  // shows the compiler that this is warp-uniform
  if (team >= 2) {
    if constexpr (!Cut::kEarly) setmaxnreg_dec<kLong ? 56 : 72>();
    const int thread = threadIdx.x - kConsumerThreads;
    PipelineState state;
    if (thread >= kProducerThreads) {
      const int lane = thread - kProducerThreads;
      if (!kRaw && lane > 0) return;
      wait_for_previous_kernel();  // pack_weights
      const auto load_weights = [&](const uint8_t* from, int bytes) {
        barrier_expect(&shared.full_weights[state.stage], bytes);
        bulk_load(weight_stages + state.stage * plan.group_bytes, from, bytes, &shared.full_weights[state.stage]);
      };
      if constexpr (kRaw) {  // loads weights or rows, whichever there is space for, because other warps wait for both
        Groups groups(plan, packed, first_task, form::kStepBytes);
        const auto next_weights = [&] {
          if (lane == 0) load_weights(groups.from, groups.bytes(plan, form::kStepBytes));
          groups.next(plan, packed, stride, form::kStepBytes);
          state.next(plan.stages);
        };
        uint32_t piece = 0;
        for (uint32_t task = first_task; task < plan.tasks; task += stride) {
          const RowSpan row(plan, d, static_cast<const float*>(x), Span(plan, d, task / plan.blocks), lane);
          for (int slot = 0; slot < plan.chunks.slots(); ++slot, ++piece) {
            do {
              if (groups.task < plan.tasks && warp_barrier_done(&shared.empty_weights[state.stage], state.phase ^ 1))
                next_weights();
            } while (!raw.room(piece));
            raw.load(piece, d, row, slot, lane);
          }
        }
        while (groups.task < plan.tasks) {
          barrier_wait(&shared.empty_weights[state.stage], state.phase ^ 1);
          next_weights();
        }
      } else {
        for (uint32_t task = first_task; task < plan.tasks; task += stride) {
          const uint8_t* from =
              packed.tiles + (task % plan.blocks * plan.steps + begin * plan.first_steps) * form::kStepBytes;
          for (int chunk = begin; chunk < end; ++chunk) {
            const bool last = chunk == last_chunk;
            const int group = last ? plan.last_group : plan.first_group;
            for (int left = last ? plan.last_steps : plan.first_steps; left > 0; left -= group) {
              const int bytes = min(left, group) * form::kStepBytes;
              barrier_wait(&shared.empty_weights[state.stage], state.phase ^ 1);
              load_weights(from, bytes);
              state.next(plan.stages);
              from += bytes;
            }
          }
        }
      }
      return;
    }
    uint32_t number = 0, piece = 0;                               // number of the chunk; number of its first piece
    int slot = 0, at = __shfl_sync(0xffffffffu, thread / 32, 0);  // this warp's next lot: see `stage_raw`
    for (; at >= plane / kLot; at -= plane / kLot) ++slot;
    const bool early = Cut::kEarly && plan.early;
    if (!early) wait_for_previous_kernel();
    for (uint32_t task = first_task; task < plan.tasks; task += stride) {
      const Span span(plan, d, task / plan.blocks);
      const long long origin = span.image * d.C * d.H * d.W;
      ImageScale own;
      if (early) {
        const int count = d.C * d.H * d.W;
        own = bytes ? scale_of(static_cast<const uint8_t*>(x) + origin, count, plan.threshold)
                    : scale_of(static_cast<const float*>(x) + origin, count, plan.threshold);
      }
      for (int chunk = begin; chunk < end; ++chunk, state.next(plan.buffers)) {
        barrier_wait(&shared.empty_pixels[state.stage], state.phase ^ 1);
        ++number;
        uint4* to = buffers + state.stage * buffer_slots;
        constexpr int kRows = kLong ? 2 : 3;
        const auto split = [&](const auto& scales) {
          return bytes ? stage<kRows>(plan, d, static_cast<const uint8_t*>(x) + origin, span, chunk, scales, to, thread)
                       : stage<kRows>(plan, d, static_cast<const float*>(x) + origin, span, chunk, scales, to, thread);
        };
        const ImageScale* images = packed.images + span.image;
        Seen seen;
        if constexpr (kRaw) {
          const int slots = plan.chunks.slots_of(chunk);
          seen = plan.by_image ? stage_raw<true>(plan, d, raw, piece, span, slots, images, to, slot, at)
                               : stage_raw<false>(plan, d, raw, piece, span, slots, images, to, slot, at);
          piece += slots;
        } else {
          seen = early ? split(own) : split(images);
        }
        if (seen.low & 0x7fff7fffu) shared.flags[state.stage].low = number;
        if (seen.needs_fallback) shared.flags[state.stage].needs_fallback = number;
        bulk_fence();
        barrier_arrive(&shared.full_pixels[state.stage]);
      }
    }
    return;
  }

  if constexpr (!Cut::kEarly) setmaxnreg_inc<kLong ? 200 : 184>();
  wait_for_previous_kernel();
  const int lane = threadIdx.x % 32, rank = threadIdx.x % 128;
  const int tile = kTiles == 2 ? team : 0, first = kTiles == 2 ? 0 : team * (kColumns - plan.reach);
  const uint32_t weights_corner = static_cast<uint32_t>(
      core_descriptor(shared_address(weight_stages) + tile * form::kParts * kTileBytes, kTileDepth, 128));
  const uint32_t eight = Cut::kStrips ? plan.strips.width : 8;  // entries from a group of eight positions to the next
  const uint32_t buffers_corner = static_cast<uint32_t>(core_descriptor(shared_address(buffers), 0, 128)) +
                                  (Cut::kStrips ? first / 8 * eight : first);
  const int low_plane = plan.chunks.per_chunk * plane;
  const uint32_t group_units = static_cast<uint32_t>(plan.group_bytes) / 16;
  float high[kColumns / 2] = {}, low[kColumns / 2] = {}, sum[kLong ? kColumns / 2 : 1] = {};
  constexpr int kRows = kTaps == 0 ? 16 : form::kFilters / 4;  // filters that a warp stores
  // The barriers' addresses, in registers; from pointers the compiler would compute them again for each group of steps.
  const uint32_t barriers = __shfl_sync(0xffffffffu, shared_address(&shared), 0);
  const uint32_t full_pixels = barriers + offsetof(Shared, full_pixels);
  const uint32_t empty_pixels = barriers + offsetof(Shared, empty_pixels);
  const uint32_t full_weights = barriers + offsetof(Shared, full_weights);
  const uint32_t empty_weights = barriers + offsetof(Shared, empty_weights);
  uint32_t leads = lane == 0;
  keep_register(leads);
  PipelineState pixels, weights;
  uint32_t number = 0;  // number of the chunk
  for (uint32_t task = first_task; task < plan.tasks; task += stride) {
    const Span span(plan, d, task / plan.blocks);
    const int m0 = static_cast<int>(task % plan.blocks) * kTiles * form::kFilters + tile * form::kFilters;
    const int m_warp = m0 + threadIdx.x / 32 % 4 * kRows;
    // The factors that undo the scales. They are loaded without a branch: after a divergent branch the compiler would
    // insert a wait after each wgmma.
    const float filter_unscale = packed.unscale[min(m_warp + lane, d.M - 1)];
    const Position position(plan, d, span, first + rank);
    const float image_scale = packed.images[min(span.image + position.further, d.B - 1)].scale;

    bool needs_fallback = false, low_begun = false;
    int chain = 0;          // number of steps that `high` contains
    int in_segment = 0;     // number of the segment's chunks that are done
    int last_weights = -1;  // stage of the previous group, whose weights may still be read; -1 if there is none
    int last_pixels = -1;   // buffer of the previous chunk, whose pixels may still be read; -1 if there is none
    KeptSums<kColumns> kept(packed, plan, task, part);
    if constexpr (kLong)
#pragma unroll
      for (int i = 0; i < kColumns / 2; ++i) sum[i] = 0.0f;
    const auto release = [&](uint32_t empty, int* stage) {
      if (*stage >= 0 && leads) barrier_arrive(empty + 8 * *stage);
      *stage = -1;
    };
    for (int chunk = begin; chunk < end; ++chunk, pixels.next(plan.buffers)) {
      barrier_wait(full_pixels + 8 * pixels.stage, pixels.phase);
      // Only the lane that arrives at `empty_pixels` reads what the producers overwrite then.
      Flags flags = {0, 0};
      if (leads) flags = shared.flags[pixels.stage];
      const bool with_low = __any_sync(0xffffffffu, flags.low == ++number) && !plan.half, last = chunk == last_chunk;
      const bool ends_segment = ++in_segment == plan.segment || last;
      if (ends_segment) in_segment = 0;
      needs_fallback |= flags.needs_fallback == number;
      const uint32_t corner = buffers_corner + pixels.stage * buffer_slots;
      const int count = last ? plan.last_steps : plan.first_steps, group = last ? plan.last_group : plan.first_group;
      for (int at = 0; at < count; at += group) {
        const bool done = at + group >= count;  // whether this is the chunk's last group of steps
        const int these = done ? count - at : group;
        const uint32_t* places = steps.places[last] + at;
        barrier_wait(full_weights + 8 * weights.stage, weights.phase);
        const uint32_t w = weights_corner + weights.stage * group_units;
        wgmma_fence();
        with_steps(typename form::Steps{}, these, [&](auto group_steps) {
          multiply_steps<decltype(group_steps)::value, form::kStepBytes>(high, w, corner, places, eight, chain > 0);
        });
        wgmma_commit();
        chain += these;
        if (kTaps == 0 ? !plan.half : with_low) {
          with_steps(typename form::Steps{}, these, [&](auto group_steps) {
            constexpr int kSteps = decltype(group_steps)::value;
            const uint32_t low_corner = corner + low_plane;
            if constexpr (kTaps == 0) {
              multiply_steps<kSteps, form::kStepBytes>(low, w + kTileBytes / 16, corner, places, eight, low_begun);
              if (with_low) multiply_steps<kSteps, form::kStepBytes>(low, w, low_corner, places, eight, 1);
            } else {
              multiply_steps<kSteps, form::kStepBytes>(low, w, low_corner, places, eight, low_begun);
            }
          });
          low_begun = true;
        }
        wgmma_commit();
        // After the wait only this group's products are in flight; at the end of a chain, only its products with a low
        // part, which keep the tensor cores busy while the chain's sum is added.
        if (kLong && (chain + group > plan.chain || (done && ends_segment))) {
          wgmma_wait<1>(high);
          if constexpr (kParts) {
            kept.keep(high);
          } else {
#pragma unroll
            for (int i = 0; i < kColumns / 2; ++i) sum[i] += high[i];
          }
          chain = 0;
        } else {
          wgmma_wait_but<2>();
        }
        if (kLong && done && ends_segment) {
          wgmma_wait(low);
          if constexpr (kParts) {
#pragma unroll
            for (int i = 0; i < kColumns / 2; ++i) low[i] = low_begun ? low[i] * (1.0f / kLowScale) : 0.0f;
            kept.keep(low);
          } else if (low_begun) {
#pragma unroll
            for (int i = 0; i < kColumns / 2; ++i) sum[i] += low[i] * (1.0f / kLowScale);
          }
          low_begun = false;
        }
        release(empty_weights, &last_weights);
        release(empty_pixels, &last_pixels);
        last_weights = weights.stage;
        weights.next(plan.stages);
      }
      last_pixels = pixels.stage;
    }
    wgmma_wait(high);
    wgmma_wait(low);
    release(empty_weights, &last_weights);
    release(empty_pixels, &last_pixels);
    needs_fallback = __any_sync(0xffffffffu, needs_fallback);
    if constexpr (kParts) needs_fallback = kept.add_up(sum, kTaps > 1, needs_fallback);

    float* out = y + span.image * d.M * d.OH * d.OW;
    Columns& columns = shared.columns[team];
    if (lane < kRows && filter_unscale == 0.0f) columns.fallback = number;
    if (rank < kColumns) {
      const bool own = rank < kColumns - plan.reach && (!kParts || kept.owns(rank / 8));
      columns.place(d, rank, position, own, image_scale);
    }
    named_barrier(kAnyShapeConsumers + team, 128);
    const bool weights_need_fallback = columns.fallback == number;
    if (!weights_need_fallback) {
      const auto value = [&](int i) {
        const bool stacked = kTaps > 0 && !plan.half;  // whether rows with low parts of weights are added
        if constexpr (kLong) return stacked ? sum[i] + sum[i + 2] * (1.0f / kLowScale) : sum[i];
        float small = low_begun ? low[i] : 0.0f;
        if (stacked) small += high[i + 2] + (low_begun ? low[i + 2] : 0.0f) * (1.0f / kLowScale);
        return high[i] + small * (1.0f / kLowScale);
      };
      if constexpr (kTaps > 1)
        store_taps<kTaps, kColumns>(d, columns, filter_unscale, m_warp, out, outgoing_all, plan.chunks.shift, value);
      else
        store_tile<kRows, kColumns>(d, columns, filter_unscale, m_warp, out, outgoing_all, value);
    }
    if (needs_fallback || weights_need_fallback) {
      // Waits until all threads have read the offsets, and have made the stores above, which the fallback overwrites.
      named_barrier(kAnyShapeConsumers + team, 128);
      const long long origin = span.image * d.C * d.H * d.W;
      const auto again = [&](auto* in) {
        if (rank == 0) columns.listed = 0;
        named_barrier(kAnyShapeConsumers + team, 128);
        if (rank < kColumns && columns.offsets[rank] >= 0) {
          const int further = columns.corners[rank] / (d.C * d.H * d.W);
          if (weights_need_fallback ||
              any_unsplittable(d, in, columns.corners[rank], packed.images[span.image + further]))
            columns.list[atomicAdd(&columns.listed, 1)] = rank;  // the order does not matter: outputs are independent
        }
        named_barrier(kAnyShapeConsumers + team, 128);
        fallback_outputs(d, in, k, out, columns.offsets, columns.corners, columns.list, columns.listed, m0,
                         form::kFilters, rank, 128);
      };
      if (bytes)
        again(static_cast<const uint8_t*>(x) + origin);
      else
        again(static_cast<const float*>(x) + origin);
    }
    named_barrier(kAnyShapeConsumers + team, 128);  // waits until all threads have read the offsets
  }
#endif
}

}  // namespace fops::hopper
