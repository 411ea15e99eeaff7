// Step 12, any shape, small batches, on Hopper: a block has all it needs in shared memory at once.
//
//   warps 0 to 7     weights of 64 filters: copied, then split    |  one barrier  |  warps 0 to 3 multiply and store
//   warps 8 to 15    pixels of 32 positions and their taps        |               |  32 or 64 columns of a wgmma
//
// any_shape.cu's kernels are a stream of chunks behind a kernel that packs the weights. Of one image that kernel, and
// setting up the stream, take most of the time: what counts here is how many instructions follow one another. Chains of
// sums are those of any_shape.cu, so an image's outputs are the same to the last bit whatever its batch.
// Costs: each block packs the weights of its filters. Where there are more blocks than multiprocessors, it is too much.
#include "conv/cuda/12_tensor_core/any_shape/choice.cuh"
#include "conv/cuda/12_tensor_core/any_shape/own_weights.cuh"

#include "conv/cuda/12_tensor_core/tensor_core.h"
#include "conv/cuda/kernels.h"

namespace fops {
namespace any_shape {
namespace {

constexpr int kPixelThreads = 256, kPlanners = 128, kAllThreads = kPackers + kPixelThreads + kPlanners;
constexpr int kColumns = 32, kPlansBarrier = 2;

struct AtOnce {  // of fixed size
  uint4 table[kOwnUnits];
  float unscale[kTileRows];  // undoes a filter's scale; 0 where it has none
  ImageScale image;
  int offsets[2 * kColumns], corners[2 * kColumns];  // of a position: where in y, filters aside, or -1; and in x
  int list[2 * kColumns], listed, plain;             // positions on the plain road; whether all are
};

// Splits a block's pixels, all chunks of them, by kPixelThreads threads. Whether one has no good split.
template <typename X>
__device__ __forceinline__ bool stage_all(const Dims& d, const Plan& plan, const X* image, int first, uint4* to,
                                          ImageScale* scale) {
  const int thread = threadIdx.x - kPackers, pixels = d.H * d.W, rows = plan.chunks.slots() * plan.staged;
  const int low = plan.chunks.a_chunk * plan.staged;  // from high halves to low ones
  const ImageSample<X> sample(image, d.C * pixels);   // on its way with the first pixels
  Seen seen;
  ImageScale by = {};
#pragma unroll 1
  for (int begin = thread; begin - thread % 32 < rows; begin += kPixelThreads) {  // whole warps
    const int row = min(begin, rows - 1), s = divide(row, plan.inverse_staged), i = row - s * plan.staged;
    const int at = min(first + i, pixels - 1), channel = plan.chunks.slot(s).channel;
    const X* from = image + channel * pixels + at;
    float v[8];
    if (s < plan.chunks.full && channel + 8 <= d.C) {
#pragma unroll
      for (int e = 0; e < 8; ++e) v[e] = static_cast<float>(__ldg(from + e * pixels));
    } else {
      // What lies past an end meets zero weights, or positions that are not stored.
      const int channels = s < plan.chunks.full ? 8 : plan.chunks.narrow, shift = __ffs(channels) - 1;
#pragma unroll
      for (int e = 0; e < 8; ++e)
        v[e] = static_cast<float>(
            __ldg(from + min(e & (channels - 1), d.C - 1 - channel) * pixels + min(e >> shift, pixels - 1 - at)));
    }
    __syncwarp();
    if (by.scale == 0.0f) by = sample.scale(plan.threshold);
    const int chunk = s / plan.chunks.a_chunk;  // which has its low halves behind it
    if (begin < rows) seen.split_row(v, by, to + chunk * low + row, to + (chunk + 1) * low + row);
  }
  if (thread == 0) *scale = by;
  return seen.beyond;
}

// The outputs that a value without a good split enters, or all of them, by the threads that multiply.
template <int kThreads, typename X>
__device__ __noinline__ void plain_again(const Dims& d, AtOnce& shared, const X* image, const float* k, float* y, int m0,
                                         int filters, int columns) {
  const int thread = threadIdx.x;
  if (thread == 0) shared.listed = shared.plain = 0;
  named_barrier(1, kThreads);
  if (thread < min(filters, d.M - m0) && shared.unscale[thread] == 0.0f) shared.plain = 1;
  named_barrier(1, kThreads);
  if (thread < columns && shared.offsets[thread] >= 0 &&
      (shared.plain || any_beyond(d, image, shared.corners[thread], shared.image)))
    shared.list[atomicAdd(&shared.listed, 1)] = thread;  // in any order: each is by itself
  named_barrier(1, kThreads);
  plain_outputs(d, image, k, y, shared.offsets, shared.corners, shared.list, shared.listed, m0, filters, thread, kThreads);
}

// kWarpgroups: 32 positions each.
template <bool kStacked, int kWarpgroups, bool kLong, typename X>
__global__ void __launch_bounds__(bound_with_wgmma(kAllThreads), 1)
    tensor_core_at_once(const __grid_constant__ Dims d, const __grid_constant__ Plan plan,
                        const __grid_constant__ Steps steps, Divisor by_width, const X* __restrict__ x,
                        const float* __restrict__ k, float* __restrict__ y) {
#if FOPS_SM_90A
  using Weights = OwnWeights<kStacked>;
  constexpr int kStep = Weights::kStepBytes / 16, kPositions = kWarpgroups * kColumns;
  extern __shared__ __align__(128) uint8_t dynamic[];
  __shared__ AtOnce shared;
  uint8_t* const tiles = dynamic;
  uint4* const pixels = reinterpret_cast<uint4*>(tiles + plan.steps * Weights::kStepBytes);
  const int low_plane = plan.chunks.a_chunk * plan.staged;
  float* const raw = reinterpret_cast<float*>(pixels + plan.chunk_count * 2 * low_plane);
  const int m0 = blockIdx.y * Weights::kFilters, first = blockIdx.x * kPositions;
  const X* const image = x + 1LL * blockIdx.z * d.C * d.H * d.W;
  const int warp = __shfl_sync(0xffffffffu, threadIdx.x / 32, 0);  // as the compiler sees: of a warp

  bool beyond = false;
  if (warp < kPackers / 32) {
    const Weights own(d, raw, min(Weights::kFilters, d.M - m0));
    own.fetch(k + 1LL * m0 * own.count);
    bool fits;
    const float scale = own.choose_scale(plan.threshold, shared.unscale, &fits);
    beyond = !fits;
    named_barrier(kPlansBarrier, kPackers + kPlanners);  // the table is there
    own.split(shared.table, plan.steps, scale, tiles);
  } else if (warp < (kPackers + kPixelThreads) / 32) {
    beyond = stage_all(d, plan, image, first, pixels, &shared.image);
  } else {
    const int thread = threadIdx.x - kPackers - kPixelThreads;
    for (int unit = thread; unit < 2 * plan.steps + 2 * kUnitsAhead; unit += kPlanners)
      shared.table[unit] = own_weights_at(d, plan, steps, unit);
    named_barrier(kPlansBarrier, kPackers + kPlanners);
    if (thread < kPositions) {
      const int position = first + thread, h = static_cast<int>(by_width.divide(position)), w = position - h * d.W;
      shared.offsets[thread] = h < d.OH && w < d.OW ? h * d.OW + w : -1;
      shared.corners[thread] = position;
    }
  }
  bulk_fence();
  beyond = __syncthreads_or(beyond);
  if (warp >= 4 * kWarpgroups) return;

  const int lane = threadIdx.x % 32, g = lane / 4, t = lane % 4, group_of_warps = warp / 4;
  uint32_t w = static_cast<uint32_t>(core_descriptor(shared_address(tiles), kTileDepth, 128));
  uint32_t corner = static_cast<uint32_t>(core_descriptor(shared_address(pixels), 0, 128)) + group_of_warps * kColumns;
  float high[kColumns / 2] = {}, low[kColumns / 2] = {}, sum[kColumns / 2] = {};
  int chain = 0, in_segment = 0, low_begun = 0;  // steps in `high`; chunks of the segment that are done
  for (int chunk = 0; chunk < plan.chunk_count; ++chunk, corner += 2 * low_plane) {
    const bool last = chunk == plan.chunk_count - 1, ends_segment = ++in_segment == plan.segment || last;
    if (ends_segment) in_segment = 0;
    const int count = last ? plan.last_steps : plan.first_steps, group = last ? plan.last_group : plan.first_group;
    for (int at = 0; at < count; at += group) {
      const int these = min(group, count - at);
      const bool done = at + group >= count;  // with the chunk
      const uint32_t* places = steps.places[last] + at;
      const auto multiply = [&](float(&to)[kColumns / 2], uint32_t of_weights, uint32_t of_pixels, int keep) {
        wgmma_low<kColumns>(to, of_weights, of_pixels + places[0], keep);
#pragma unroll 1
        for (int i = 1; i < these; ++i) wgmma_low<kColumns>(to, of_weights + i * kStep, of_pixels + places[i], 1);
      };
      wgmma_fence();
      multiply(high, w, corner, chain > 0);
      wgmma_commit();
      chain += these;
      if (!kStacked) multiply(low, w + kTileBytes / 16, corner, low_begun);
      multiply(low, w, corner + low_plane, kStacked ? low_begun : 1);
      low_begun = 1;
      wgmma_commit();
      if (kLong && (chain + group > plan.chain || (done && ends_segment))) {
        wgmma_wait<1>(high);
#pragma unroll
        for (int i = 0; i < kColumns / 2; ++i) sum[i] += high[i];
        chain = 0;
      } else {
        wgmma_wait_but<2>();
      }
      if (kLong && done && ends_segment) {
        wgmma_wait(low);
#pragma unroll
        for (int i = 0; i < kColumns / 2; ++i) sum[i] += low[i] * (1.0f / kLowScale);
        low_begun = 0;
      }
      w += these * kStep;
    }
  }
  wgmma_wait(high);
  wgmma_wait(low);

  // A stacked filter's two sums into that of its high halves. See `value` in kernel.cuh.
#pragma unroll
  for (int i = 0; i < kColumns / 2; ++i) {
    if (kStacked && i % 4 >= 2) continue;
    if (kLong) {
      if (kStacked) sum[i] += sum[i + 2] * (1.0f / kLowScale);
    } else {
      float small = low[i];
      if (kStacked) small += high[i + 2] + low[i + 2] * (1.0f / kLowScale);
      sum[i] = high[i] + small * (1.0f / kLowScale);
    }
  }

  float* const out = y + 1LL * blockIdx.z * d.M * d.OH * d.OW;
  const int row = kStacked ? warp % 4 * 8 + g : warp % 4 * 16 + g, plane = d.OH * d.OW;
  const float image_unscale = inverse_power(shared.image.scale);
#pragma unroll
  for (int r = 0; r < (kStacked ? 1 : 2); ++r) {
    const int m = m0 + row + 8 * r;
    if (m >= d.M) break;
    const float back = shared.unscale[row + 8 * r];
    float* const to = out + m * plane;
#pragma unroll
    for (int j = 0; j < kColumns / 8; ++j) {
      const int2 at = *reinterpret_cast<const int2*>(shared.offsets + group_of_warps * kColumns + 8 * j + 2 * t);
      if (at.x >= 0) to[at.x] = sum[4 * j + 2 * r] * back * image_unscale;
      if (at.y >= 0) to[at.y] = sum[4 * j + 2 * r + 1] * back * image_unscale;
    }
  }
  if (beyond) {
    named_barrier(1, 128 * kWarpgroups);  // what is stored here comes after the above
    plain_again<128 * kWarpgroups>(d, shared, image, k, out, m0, Weights::kFilters, kPositions);
  }
#endif
}

size_t shared_bytes(const fops_conv& c, const Plan& plan, size_t step_bytes) {
  return plan.steps * step_bytes + static_cast<size_t>(plan.chunk_count) * 2 * plan.chunks.a_chunk * plan.staged * 16 +
         own_raw_bytes(static_cast<int>(c.C * c.K * c.K));
}

template <bool kStacked, int kWarpgroups>
fops_status launch(const fops_conv& c, const Plan& plan, const void* x, const float* k, float* y, cudaStream_t stream) {
  using Weights = OwnWeights<kStacked>;
  const dim3 grid(static_cast<unsigned>(plan.spans), static_cast<unsigned>(plan.blocks), static_cast<unsigned>(c.B));
  const size_t shared = shared_bytes(c, plan, Weights::kStepBytes);
  const Steps steps = steps_for(c, plan);
  return with_input(c, x, [&](auto input) {
    using X = std::remove_const_t<std::remove_pointer_t<decltype(input)>>;
    auto* kernel = plan.steps > plan.chain ? tensor_core_at_once<kStacked, kWarpgroups, true, X>
                                           : tensor_core_at_once<kStacked, kWarpgroups, false, X>;
    FOPS_TRY(allow_shared(kernel, shared));
    kernel<<<grid, kAllThreads, shared, stream>>>(dims(c), plan, steps, Divisor(static_cast<uint32_t>(c.W)), input, k, y);
    return launched("tensor-core");
  });
}

}  // namespace

bool at_once(const fops_conv& c, const Plan& usual_plan, const Choice& usual, int multiprocessors, Plan* plan,
             Choice* choice) {
  if (usual.taps > 1 || usual_plan.steps > kOwnSteps) return false;
  for (const int columns : {kColumns, 2 * kColumns}) {
    Choice other = {usual.taps, 1, columns, 1};
    *plan = usual_plan;
    const int64_t below = c.K - 1, last = (out_h(c) - 1) * c.W + out_w(c);
    plan->positions = columns;
    plan->staged = static_cast<int>(ceil_div(columns + below * c.W + below, 8) * 8);
    plan->inverse_staged = inverse_of(static_cast<uint32_t>(plan->staged));
    plan->spans = static_cast<uint32_t>(ceil_div(last, columns));
    plan->blocks = static_cast<int>(ceil_div(c.M, other.filters()));
    plan->strips = {}, plan->by_image = true;
    if (plan->chunks.slots() * int64_t{plan->staged} >= 1 << 16) return false;  // see `divide`
    if (plan->chunks.a_chunk * plan->staged > 0x3fff) return false;             // and `fits`
    if (shared_bytes(c, *plan, other.step_bytes()) > 227 * 1024 - sizeof(AtOnce) - 1024) return false;
    *choice = other;
    if (int64_t{plan->spans} * plan->blocks * c.B <= multiprocessors) return true;
  }
  return false;
}

fops_status launch_at_once(const fops_conv& c, const Plan& plan, const Choice& choice, const void* x, const float* k,
                           float* y, cudaStream_t stream) {
  const bool narrow = choice.columns == kColumns;
  if (choice.taps == 1) return narrow ? launch<true, 1>(c, plan, x, k, y, stream) : launch<true, 2>(c, plan, x, k, y, stream);
  return narrow ? launch<false, 1>(c, plan, x, k, y, stream) : launch<false, 2>(c, plan, x, k, y, stream);
}

}  // namespace any_shape
}  // namespace fops
