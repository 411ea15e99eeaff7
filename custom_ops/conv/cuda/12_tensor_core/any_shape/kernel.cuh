// Any shape on Hopper: the kernel.
#pragma once

#include "conv/cuda/12_tensor_core/any_shape/plain.cuh"
#include "conv/cuda/12_tensor_core/any_shape/staging.cuh"
#include "gpu/isa/bulk_copy.cuh"
#include "gpu/isa/wgmma.cuh"

namespace fops {
namespace any_shape {

// Who does what, a warpgroup each:
//
//   0, 1  multiply   <- buffers of staged pixels  <- 2, 3 but for a warp   stage them     <- global memory
//                    <- ring of weights           <- that warp's first thread: the copy engine brings them
//
// Barriers count arrivals: `full` when a buffer or a place of the ring may be read, `empty` when it may be written.
constexpr int kMultipliers = 256, kThreads = kMultipliers + kStagers + 32;
static_assert(kThreads == 512, "registers are dealt out to four warpgroups");
constexpr int kMostBuffers = 4, kMostRing = 8;
// Of weights, a copy: several steps' worth, so that the thread that asks for them keeps up.
constexpr int kGroupBytes = 16384;

// kStacked: rows of a wgmma are 32 filters, high and low halves; else 64 filters, the low halves in a tile of their own.
// kTiles: tiles of filters a block. With two the two warpgroups share positions, with one they share filters.
template <bool kStacked, int kTiles>
struct Form {
  static constexpr int kParts = kStacked ? 1 : 2;                    // tiles of memory a tile of filters
  static constexpr int kFilters = kStacked ? kTileRows / 2 : kTileRows;  // of a tile
  static constexpr int kStepBytes = kTiles * kParts * kTileBytes;
};

// Outputs on their way, a warp: 16 filters by 64 positions, four banks between filters.
constexpr int kOutgoingStride = 68, kOutgoingFloats = 16 * kOutgoingStride;
constexpr int kOutgoingBytes = 4 * kOutgoingFloats * kMultipliers / 32;

struct Shared {  // of fixed size; ring and buffers lie behind it
  uint64_t full_pixels[kMostBuffers], empty_pixels[kMostBuffers], full_weights[kMostRing], empty_weights[kMostRing];
  Flags flags[kMostBuffers];
  uint32_t steps[2][kMostSteps];  // of the first chunk and of the last: where the two units begin
  int offsets[2][128], corners[2][128];  // see the end of the kernel
  float unscale[2][128];
  int list[2][128], listed[2];  // positions that take the plain road
  bool plain_weights;           // all do
};

// A place in a circular buffer, and the parity of the round.
struct Place {
  int at = 0;
  uint32_t phase = 0;
  __device__ void next(int count) {
    if (++at == count) at = 0, phase ^= 1;
  }
};

#if defined(__CUDA_ARCH__) && !FOPS_SM_90A
constexpr int kBound = 32;  // code without wgmma is empty; its bound on threads says so to the host
#else
constexpr int kBound = kThreads;
#endif

// kLong: more steps than a chain may have.
template <bool kStacked, int kTiles, int kColumns, bool kLong>
__global__ void __launch_bounds__(kBound, 1)
    tensor_core_any_shape(const __grid_constant__ Dims d, const __grid_constant__ Plan plan, bool bytes,
                          const void* __restrict__ x, const float* __restrict__ k, float* __restrict__ y,
                          Packed packed) {
#if FOPS_SM_90A
  using form = Form<kStacked, kTiles>;
  extern __shared__ __align__(128) uint8_t dynamic[];
  __shared__ Shared shared;
  uint8_t* ring = dynamic;
  uint4* buffers = reinterpret_cast<uint4*>(dynamic + plan.ring * kGroupBytes);
  float* outgoing_all = reinterpret_cast<float*>(buffers + plan.buffers * 2 * plan.chunks.a_chunk * plan.staged);
  const int plane = plan.staged, buffer_slots = 2 * plan.chunks.a_chunk * plane;  // in units of 16 bytes
  const int chunks = plan.chunk_count;

  if (threadIdx.x == 0) {
    for (int i = 0; i < plan.buffers; ++i) {
      shared.flags[i] = {0, 0};
      barrier_init(&shared.full_pixels[i], kStagers);
      barrier_init(&shared.empty_pixels[i], kMultipliers / 32);
    }
    for (int i = 0; i < plan.ring; ++i) {
      barrier_init(&shared.full_weights[i], 1);
      barrier_init(&shared.empty_weights[i], kMultipliers / 32);
    }
    barrier_init_end();
  }
  for (int i = threadIdx.x; i < 2 * kMostSteps; i += kThreads) {
    const int chunk = i / kMostSteps == 0 ? 0 : chunks - 1, step = i % kMostSteps;
    if (step >= (i < kMostSteps ? plan.first_steps : plan.last_steps)) continue;
    Unit a, b;
    plan.chunks.unit_at(chunk, step, 0, &a);
    const uint32_t from = a.in_chunk * plane + a.p * d.W + a.q;
    // A unit that is missing has zero weights: it may be the first one's pixels again.
    const bool two = plan.chunks.unit_at(chunk, step, 1, &b);
    const uint32_t distance = two ? b.in_chunk * plane + b.p * d.W + b.q - from : 0;
    shared.steps[i / kMostSteps][step] = from | distance << 16;
  }
  __syncthreads();
  wait_for_previous_kernel();  // which packs the weights
  bool plain = false;
  for (int m = threadIdx.x; m < d.M; m += kThreads) plain |= packed.unscale[m] == 0.0f;
  if (plain = __syncthreads_or(plain); threadIdx.x == 0) shared.plain_weights = plain;
  __syncthreads();

  const int group = threadIdx.x / 128;
  if (group >= 2) {
    registers_down<kLong ? 56 : 72>();
    const int thread = threadIdx.x - kMultipliers;
    Place place;
    if (thread >= kStagers) {
      if (thread > kStagers) return;
      for (uint32_t task = blockIdx.x; task < plan.tasks; task += gridDim.x) {
        const uint8_t* from = packed.tiles + task % plan.blocks * plan.steps * form::kStepBytes;
        for (int chunk = 0; chunk < chunks; ++chunk) {
          const bool last = chunk == chunks - 1;
          const int group = last ? plan.last_group : plan.first_group;
          for (int left = last ? plan.last_steps : plan.first_steps; left > 0; left -= group) {
            const int bytes = min(left, group) * form::kStepBytes;
            barrier_wait(&shared.empty_weights[place.at], place.phase ^ 1);
            barrier_expect(&shared.full_weights[place.at], bytes);
            bulk_load(ring + place.at * kGroupBytes, from, bytes, &shared.full_weights[place.at]);
            place.next(plan.ring);
            from += bytes;
          }
        }
      }
      return;
    }
    uint32_t number = 0;  // of the chunk
    for (uint32_t task = blockIdx.x; task < plan.tasks; task += gridDim.x) {
      const Span span(plan, d, task / plan.blocks);
      const long long origin = span.image * d.C * d.H * d.W;
      for (int chunk = 0; chunk < chunks; ++chunk, place.next(plan.buffers)) {
        barrier_wait(&shared.empty_pixels[place.at], place.phase ^ 1);
        ++number;
        uint4* to = buffers + place.at * buffer_slots;
        constexpr int kRows = kLong ? 2 : 3;
        const ImageScale* images = packed.images + span.image;
        const Seen seen =
            bytes ? stage<kRows>(plan, d, static_cast<const uint8_t*>(x) + origin, span, chunk, images, to, thread)
                  : stage<kRows>(plan, d, static_cast<const float*>(x) + origin, span, chunk, images, to, thread);
        if (seen.low & 0x7fff7fffu) shared.flags[place.at].low = number;
        if (seen.beyond) shared.flags[place.at].beyond = number;
        bulk_fence();
        barrier_arrive(&shared.full_pixels[place.at]);
      }
    }
    return;
  }

  registers_up<kLong ? 200 : 184>();
  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32 % 4, rank = threadIdx.x % 128;
  const int tile = kTiles == 2 ? group : 0, first = kTiles == 2 ? 0 : group * kColumns;
  const uint32_t ring_address = shared_address(ring) + tile * form::kParts * kTileBytes;
  const uint32_t buffers_address = shared_address(buffers) + first * 16;
  const int low_plane = plan.chunks.a_chunk * plane * 16;
  const bool plain_weights = shared.plain_weights;
  float high[kColumns / 2] = {}, low[kColumns / 2] = {}, long_sum[kLong ? kColumns / 2 : 1] = {};
  Place pixels, weights;
  uint32_t number = 0;  // of the chunk
  for (uint32_t task = blockIdx.x; task < plan.tasks; task += gridDim.x) {
    bool beyond = false, low_begun = false;
    int chain = 0;            // steps in `high`
    int last_weights = -1;    // places that are still read: the group before, and the chunk before
    int last_pixels = -1;
    const auto sum = [&](int i) { return kLong ? long_sum[i] : high[i]; };
    if constexpr (kLong)
#pragma unroll
      for (int i = 0; i < kColumns / 2; ++i) long_sum[i] = 0.0f;
    const auto release = [&](uint64_t* empty, int* place) {
      if (*place >= 0 && lane == 0) barrier_arrive(&empty[*place]);
      *place = -1;
    };
    for (int chunk = 0; chunk < chunks; ++chunk, pixels.next(plan.buffers)) {
      barrier_wait(&shared.full_pixels[pixels.at], pixels.phase);
      const Flags flags = shared.flags[pixels.at];
      const bool with_low = flags.low == ++number && !plan.half, last = chunk == chunks - 1;
      beyond |= flags.beyond == number;
      const uint32_t buffer = buffers_address + pixels.at * buffer_slots * 16;
      const int steps = last ? plan.last_steps : plan.first_steps, group = last ? plan.last_group : plan.first_group;
      for (int begin = 0; begin < steps; begin += group) {
        const uint32_t* table = shared.steps[last] + begin;
        const int count = min(group, steps - begin);
        barrier_wait(&shared.full_weights[weights.at], weights.phase);
        const uint64_t w = core_descriptor(ring_address + weights.at * kGroupBytes, kTileDepth, 128);
        const auto pixels_at = [&](int step) {
          return core_descriptor(buffer + (table[step] & 0xffff) * 16, (table[step] >> 16) * 16, 128);
        };
        wgmma_fence();
        for (int step = 0; step < count; ++step)
          wgmma<kColumns>(high, w + step * (form::kStepBytes / 16), pixels_at(step), chain++ > 0);
        wgmma_commit();
        if (with_low || (!kStacked && !plan.half)) {
          for (int step = 0; step < count; ++step) {
            const uint64_t w_high = w + step * (form::kStepBytes / 16), in = pixels_at(step);
            if (!kStacked) wgmma<kColumns>(low, w_high + kTileBytes / 16, in, low_begun);
            low_begun |= !kStacked;
            if (with_low) wgmma<kColumns>(low, w_high, in + low_plane / 16, low_begun);
            low_begun = true;
          }
        }
        wgmma_commit();
        // Behind the wait only this group's products are under way, or, where the chain ends, only the small ones: the
        // tensor cores have these to do while the chain's sums are added up.
        if (kLong && (chain + group > kLongestChain || (last && begin + group >= steps))) {
          wgmma_wait<1>(high);
#pragma unroll
          for (int i = 0; i < kColumns / 2; ++i) long_sum[i] += high[i];
          chain = 0;
        } else {
          wgmma_wait_but<2>();
        }
        release(shared.empty_weights, &last_weights);
        release(shared.empty_pixels, &last_pixels);
        last_weights = weights.at;
        weights.next(plan.ring);
      }
      last_pixels = pixels.at;
    }
    wgmma_wait(high);
    wgmma_wait(low);
    release(shared.empty_weights, &last_weights);
    release(shared.empty_pixels, &last_pixels);

    // Where this warpgroup's positions lie in y, filters aside, and in x, channels aside.
    const Span span(plan, d, task / plan.blocks);
    const int m0 = static_cast<int>(task % plan.blocks) * kTiles * form::kFilters + tile * form::kFilters;
    float* out = y + span.image * d.M * d.OH * d.OW;
    int *offsets = shared.offsets[group], *corners = shared.corners[group];
    float* unscale_pixels = shared.unscale[group];
    if (rank < kColumns) {
      const int image_pixels = d.H * d.W, at = span.first + first + rank;
      const int further = plan.by_image ? 0 : at / image_pixels, pixel = at - further * image_pixels;
      const int h = pixel / d.W, w = pixel - h * d.W;
      const bool real = span.image + further < d.B && h < d.OH && w < d.OW;
      offsets[rank] = real ? (further * d.M * d.OH + h) * d.OW + w : -1;
      corners[rank] = further * d.C * image_pixels + pixel;
      unscale_pixels[rank] = real ? 1.0f / packed.images[span.image + further].scale : 0.0f;
    }
    named_barrier(2 + group, 128);
    if (!plain_weights) {
      // Through shared memory, a warp by itself: so that a store covers a run of one filter's outputs, 256 bytes.
      constexpr int kRows = kStacked ? 8 : 16, kRun = kColumns < 64 ? kColumns : 64;  // columns stored at a time
      float* outgoing = outgoing_all + (threadIdx.x / 32) * kOutgoingFloats;
      const int g = lane / 4, t = lane % 4, m_warp = m0 + warp * kRows;
      const float factor = lane < kRows && m_warp + lane < d.M ? packed.unscale[m_warp + lane] : 0.0f;
#pragma unroll
      for (int part = 0; part < kColumns / kRun; ++part) {
#pragma unroll
        for (int r = 0; r < kRows / 8; ++r)
#pragma unroll
          for (int j = 0; j < kRun / 8; ++j) {
            float v[2];
#pragma unroll
            for (int e = 0; e < 2; ++e) {
              const int i = 4 * (part * kRun / 8 + j) + 2 * r + e;
              float small = low_begun ? low[i] : 0.0f;
              if (kStacked && !plan.half) small += sum(i + 2) + (low_begun ? low[i + 2] : 0.0f) * (1.0f / kLowScale);
              v[e] = sum(i) + small * (1.0f / kLowScale);
            }
            *reinterpret_cast<float2*>(outgoing + (8 * r + g) * kOutgoingStride + 8 * j + 2 * t) =
                make_float2(v[0], v[1]);
          }
        __syncwarp();
        const int column = part * kRun + 2 * lane % kRun;
        const bool used = 2 * lane < kRun;
        int2 at = *reinterpret_cast<const int2*>(offsets + column);
        const float2 of_pixels = *reinterpret_cast<const float2*>(unscale_pixels + column);
        if (!used) at.x = at.y = -1;
        const bool pair = at.x >= 0 && at.y == at.x + 1;
        const bool vector = pair && d.OH * d.OW % 2 == 0 && reinterpret_cast<uintptr_t>(out + at.x) % 8 == 0;
        float* to = out + 1LL * m_warp * d.OH * d.OW + at.x;
#pragma unroll
        for (int row0 = 0; row0 < kRows; row0 += 8) {
          float2 v[8];
#pragma unroll
          for (int row = 0; row < 8; ++row) {
            v[row] = *reinterpret_cast<const float2*>(outgoing + (row0 + row) * kOutgoingStride + 2 * lane);
            const float of_row = __shfl_sync(0xffffffffu, factor, row0 + row);
            v[row].x = v[row].x * of_row * of_pixels.x, v[row].y = v[row].y * of_row * of_pixels.y;
          }
          const int real = min(8, d.M - m_warp - row0);
          if (vector) {
#pragma unroll
            for (int row = 0; row < 8; ++row, to += d.OH * d.OW)
              if (row < real) __stcs(reinterpret_cast<float2*>(to), v[row]);
          } else {
#pragma unroll
            for (int row = 0; row < 8; ++row, to += d.OH * d.OW) {
              if (row < real && at.x >= 0) __stcs(to, v[row].x);
              if (row < real && at.y >= 0) __stcs(to + (at.y - at.x), v[row].y);
            }
          }
        }
        __syncwarp();
      }
    }
    if (beyond || plain_weights) {
      named_barrier(2 + group, 128);  // the offsets have been read, and what is stored here comes after the above
      const long long origin = span.image * d.C * d.H * d.W;
      const auto again = [&](auto* in) {
        if (rank == 0) shared.listed[group] = 0;
        named_barrier(2 + group, 128);
        if (rank < kColumns && offsets[rank] >= 0) {
          const int further = corners[rank] / (d.C * d.H * d.W);
          if (plain_weights || any_beyond(d, in, corners[rank], packed.images[span.image + further]))
            shared.list[group][atomicAdd(&shared.listed[group], 1)] = rank;  // in any order: each is by itself
        }
        named_barrier(2 + group, 128);
        plain_outputs(d, in, k, out, offsets, corners, shared.list[group], shared.listed[group], m0, form::kFilters, rank,
                      128);
      };
      if (bytes) again(static_cast<const uint8_t*>(x) + origin);
      else again(static_cast<const float*>(x) + origin);
    }
    named_barrier(2 + group, 128);  // the offsets have been read
  }
#endif
}

}  // namespace any_shape
}  // namespace fops
