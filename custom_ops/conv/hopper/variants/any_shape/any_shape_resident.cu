// The second kernel of any_shape.cu, for small batches: all operands of a block are resident in shared memory.
//
//   warps 0 to 7     copy and split the weights of up to 64 filters   |         |  0 to 3: multiply and store 32 positions
//   warps 8 to 15    split the pixels under 32 or 64 positions        | barrier |  4 to 7: multiply and store 32 more
//   warps 16 to 19   compute the addresses of weights and outputs     |         |
//
// For one image, packing weights in a separate kernel and starting the pipeline take most of any_shape.cu's time. Here
// the chain of dependent instructions is shorter. Products are added in the same chains, so an image has the same bits
// in every batch.
// Costs: every block splits its filters' weights, so this kernel is used only for at most one block per SM.
#include "conv/cuda/kernels.h"
#include "conv/hopper/choose.h"
#include "conv/hopper/pipeline.cuh"
#include "conv/hopper/shape_cache.h"
#include "conv/hopper/variants.h"
#include "conv/hopper/variants/resident.cuh"
#include "conv/hopper/variants/resident.h"

namespace fops {
namespace hopper {
namespace {

constexpr int kColumns = 32;  // columns of a wgmma: a warpgroup's positions

// kWarpgroups: number of warpgroups that multiply, 32 positions each.
template <bool kStacked, int kWarpgroups, typename X>
__global__ void __launch_bounds__(bound_with_wgmma(kAllThreads), 1)
    tensor_core_any_shape_resident(const __grid_constant__ Dims d, const __grid_constant__ Plan plan,
                                   const __grid_constant__ Steps steps, Divisor by_width, const X* __restrict__ x,
                                   const float* __restrict__ k, float* __restrict__ y) {
#if FOPS_SM_90A
  using Layout = std::conditional_t<kStacked, StackedTile, RowTile>;
  constexpr int kStep = Layout::kStepBytes / 16, kPositions = kWarpgroups * kColumns;
  extern __shared__ __align__(128) uint8_t dynamic[];
  __shared__ ResidentShared shared;
  uint8_t* const tiles = dynamic;
  uint4* const pixels = reinterpret_cast<uint4*>(tiles + plan.steps * Layout::kStepBytes);
  const int low_plane = plan.chunks.per_chunk * plan.staged, m0 = blockIdx.y * Layout::kFilters;
  const X* const image = x + 1LL * blockIdx.z * d.C * d.H * d.W;
  const int warp = __shfl_sync(0xffffffffu, threadIdx.x / 32, 0);  // shows the compiler that this is warp-uniform
  const bool needs_fallback = prepare<Layout, kPositions>(
      d, plan, steps, by_width, image, k + 1LL * m0 * d.C * d.K * d.K, min(Layout::kFilters, d.M - m0),
      blockIdx.x * kPositions, warp, tiles, pixels, shared);
  if (warp >= 4 * kWarpgroups) return;

  const int lane = threadIdx.x % 32, g = lane / 4, t = lane % 4, group_of_warps = warp / 4;
  uint32_t w = static_cast<uint32_t>(core_descriptor(shared_address(tiles), kTileDepth, 128));
  uint32_t corner = static_cast<uint32_t>(core_descriptor(shared_address(pixels), 0, 128)) + group_of_warps * kColumns;
  float high[kColumns / 2] = {}, low[kColumns / 2] = {}, sum[kColumns / 2] = {};
  int chain = 0,       // number of steps that `high` contains
      in_segment = 0,  // number of the segment's chunks that are done
      low_begun = 0;   // whether `low` contains products
  for (int chunk = 0; chunk < plan.chunk_count; ++chunk, corner += 2 * low_plane) {
    const bool last = chunk == plan.chunk_count - 1, ends_segment = ++in_segment == plan.segment || last;
    if (ends_segment) in_segment = 0;
    const int count = last ? plan.last_steps : plan.first_steps, group = last ? plan.last_group : plan.first_group;
    for (int at = 0; at < count; at += group) {
      const int these = min(group, count - at);
      const bool done = at + group >= count;  // whether this is the chunk's last group of steps
      const uint32_t* places = steps.places[last] + at;
      const auto multiply = [&](float (&to)[kColumns / 2], uint32_t of_weights, uint32_t of_pixels, int keep) {
        wgmma_ss<kColumns>(to, of_weights, of_pixels + places[0], keep);
#pragma unroll 1
        for (int i = 1; i < these; ++i) wgmma_ss<kColumns>(to, of_weights + i * kStep, of_pixels + places[i], 1);
      };
      wgmma_fence();
      multiply(high, w, corner, chain > 0);
      wgmma_commit();
      chain += these;
      if (!kStacked) multiply(low, w + kTileBytes / 16, corner, low_begun);
      multiply(low, w, corner + low_plane, kStacked ? low_begun : 1);
      low_begun = 1;
      wgmma_commit();
      if (chain + group > plan.chain || (done && ends_segment)) {
        wgmma_wait<1>(high);
#pragma unroll
        for (int i = 0; i < kColumns / 2; ++i) sum[i] += high[i];
        chain = 0;
      } else {
        wgmma_wait_but<2>();
      }
      if (done && ends_segment) {
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

  // With stacked tiles, the sums of a filter's low parts (registers i + 2) are added to those of its high parts.
  if constexpr (kStacked)
#pragma unroll
    for (int i = 0; i < kColumns / 2; ++i)
      if (i % 4 < 2) sum[i] += sum[i + 2] * (1.0f / kLowScale);

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
  if (needs_fallback) {
    __syncwarp();
    named_barrier(kResidentFallback, 128 * kWarpgroups);  // the fallback's stores must come after the stores above
    fallback_block<128 * kWarpgroups>(d, shared, image, k, out, m0, Layout::kFilters, kPositions);
  }
#endif
}

// The tiling of a call for this kernel.
struct Resident {
  int groups = 0;  // warpgroups that multiply, 1 or 2; 0 if there would be too many blocks or too little shared memory
  size_t shared = 0;  // bytes of dynamic shared memory
  Plan plan;
  Steps steps;
};

Resident cut(const fops_conv& c, const Plan& usual, bool stacked, int sms) {
  const int filters = stacked ? StackedTile::kFilters : RowTile::kFilters;
  const int step_bytes = stacked ? StackedTile::kStepBytes : RowTile::kStepBytes;
  Resident resident;
  for (const int groups : {1, 2}) {
    if (!plan_resident(c, usual, groups * kColumns, filters, step_bytes, sms, &resident.plan, &resident.shared))
      continue;
    resident.groups = groups, resident.steps = steps_for(c, resident.plan);
    break;
  }
  return resident;
}

template <bool kStacked, int kWarpgroups>
fops_status launch(const fops_conv& c, const Resident& resident, const void* x, const float* k, float* y,
                   cudaStream_t stream) {
  const Plan& plan = resident.plan;
  const dim3 grid(plan.spans, static_cast<unsigned>(plan.blocks), static_cast<unsigned>(c.B));
  return with_input(c, x, [&](auto input) {
    using X = std::remove_const_t<std::remove_pointer_t<decltype(input)>>;
    auto* kernel = tensor_core_any_shape_resident<kStacked, kWarpgroups, X>;
    FOPS_TRY(allow_shared(kernel, resident.shared));
    kernel<<<grid, kAllThreads, resident.shared, stream>>>(dims(c), plan, resident.steps,
                                                           Divisor(static_cast<uint32_t>(c.W)), input, k, y);
    return launched("tensor-core");
  });
}

}  // namespace

fops_status run_resident(const fops_conv& c, const Plan& usual, bool stacked, int sms, const void* x, const float* k,
                         float* y, cudaStream_t stream, bool* taken) {
  static thread_local ShapeCache<Resident> cache;
  const Resident& resident = cache.of(c, stacked, [&] { return cut(c, usual, stacked, sms); });
  *taken = resident.groups > 0;
  if (!*taken) return FOPS_OK;
  const auto with = [&](auto launch) { return launch(c, resident, x, k, y, stream); };
  if (stacked) return resident.groups == 1 ? with(launch<true, 1>) : with(launch<true, 2>);
  return resident.groups == 1 ? with(launch<false, 1>) : with(launch<false, 2>);
}

}  // namespace hopper
}  // namespace fops
