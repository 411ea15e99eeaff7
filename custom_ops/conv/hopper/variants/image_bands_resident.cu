// The second kernel of image_bands.cu, for small batches: all operands of a block are resident in shared memory.
//
//   warps 0 to 7     copy and split the weights        |         |  0 to 3: multiply and store 64 positions
//   warps 8 to 15    split the pixels                  | barrier |  4 to 7: multiply and store 64 more
//   warps 16 to 19   compute the addresses of weights and outputs
//
//   A: 64 positions   x   B: 16, 24 or 32 filters, high and low parts   =   D of a warpgroup, stored to y from registers
//
// Chains are those of image_bands.cu, so an image's outputs have the same bits in every batch.
// Costs: every block splits all weights, so this kernel is used only for at most one block per SM.
#include "conv/hopper/choose.h"
#include "conv/hopper/pipeline.cuh"
#include "conv/hopper/variants.h"
#include "conv/hopper/variants/image_bands.cuh"
#include "conv/hopper/variants/resident.cuh"

namespace fops::hopper {
namespace {

constexpr int kRows = 64;  // rows of a wgmma: one per position of a warpgroup

// kFew: see image_bands.cu, which has the same lane map.
template <int kFilters, int kWarpgroups, bool kFew>
__global__ void __launch_bounds__(bound_with_wgmma(kAllThreads), 1)
    tensor_core_image_bands_resident(const __grid_constant__ Dims d, const __grid_constant__ Plan plan,
                                     const __grid_constant__ Steps steps, Divisor by_width, const float* __restrict__ x,
                                     const float* __restrict__ k, float* __restrict__ y) {
#if FOPS_SM_90A
  using Layout = ColumnTile<kFilters>;
  constexpr int kPositions = kWarpgroups * kRows;
  extern __shared__ __align__(128) uint8_t dynamic[];
  __shared__ ResidentShared shared;
  uint8_t* const tiles = dynamic;
  uint4* const pixels = reinterpret_cast<uint4*>(tiles + plan.steps * Layout::kStepBytes);
  const float* const image = x + 1LL * blockIdx.z * d.C * d.H * d.W;
  const int warp = __shfl_sync(0xffffffffu, threadIdx.x / 32, 0);  // shows the compiler that this is warp-uniform
  const bool needs_fallback = prepare<Layout, kPositions>(d, plan, steps, by_width, image, k, blockIdx.x * kPositions,
                                                          warp, tiles, pixels, shared);
  if (warp >= 4 * kWarpgroups) return;

  constexpr int kSmall = kFew ? 2 * kFilters : kFilters;
  float both[kFilters] = {}, small[kSmall / 2] = {}, sum[kFilters] = {};
  const uint32_t weights = static_cast<uint32_t>(core_descriptor(shared_address(tiles), Layout::kUnit, 128));
  const uint32_t corner = static_cast<uint32_t>(core_descriptor(shared_address(pixels), 0, 128)) + warp / 4 * kRows;
  const uint32_t low = plan.chunks.slots() * plan.staged;
  const auto multiply = [&](int begin, int end) {
    image_bands::multiply<kFilters, 1>(both, small, corner, low, weights, steps.places[1], begin, end);
  };
  multiply(0, min(plan.steps, plan.chain));
  wgmma_wait(both);
#pragma unroll
  for (int i = 0; i < kFilters; ++i) sum[i] = both[i];
  int begin = plan.chain;
  do {  // not `while`: if the loop could be skipped, the compiler would wait after each wgmma ("serialized")
    multiply(begin, min(begin + plan.chain, plan.steps));
    wgmma_wait(both);
#pragma unroll
    for (int i = 0; i < kFilters; ++i) sum[i] += both[i];
    begin += plan.chain;
  } while (begin < plan.steps);
  wgmma_wait(small);

  const int lane = threadIdx.x % 32, t = lane % 4, row = warp * 16 + lane / 4, plane = d.OH * d.OW;
  const float image_unscale = inverse_power(shared.image.scale);
  const int at[2] = {shared.offsets[row], shared.offsets[row + 8]};
  float* const out = y + 1LL * blockIdx.z * d.M * plane;
#pragma unroll
  for (int i = 0; i < kFilters / 2; ++i) {
    const int m = i / 4 * 8 + 2 * t + i % 2;
    const float v = image_bands::scaled_sum<kFew>(sum, small, i);
    if (m < d.M && at[i % 4 / 2] >= 0) out[m * plane + at[i % 4 / 2]] = v * shared.unscale[m] * image_unscale;
  }
  if (needs_fallback) {
    __syncwarp();
    named_barrier(kResidentFallback, 128 * kWarpgroups);  // the fallback's stores must come after the stores above
    fallback_block<128 * kWarpgroups>(d, shared, image, k, out, kFilters, kPositions);
  }
#endif
}

template <int kFilters, int kWarpgroups>
fops_status launch(const fops_conv& c, const Plan& plan, size_t shared, const float* x, const float* k, float* y,
                   cudaStream_t stream) {
  auto* kernel = c.C * c.K * c.K < kMinProducts ? tensor_core_image_bands_resident<kFilters, kWarpgroups, true>
                                                : tensor_core_image_bands_resident<kFilters, kWarpgroups, false>;
  FOPS_TRY(allow_shared(kernel, shared));
  const dim3 grid(plan.spans, 1, static_cast<unsigned>(c.B));
  kernel<<<grid, kAllThreads, shared, stream>>>(dims(c), plan, steps_for(c, plan), Divisor(static_cast<uint32_t>(c.W)),
                                                x, k, y);
  return launched("tensor-core");
}

template <int kFilters>
fops_status run(const fops_conv& c, Plan plan, int sms, const float* x, const float* k, float* y, cudaStream_t stream,
                bool* taken) {
  constexpr int kStep = ColumnTile<kFilters>::kStepBytes;
  size_t shared = 0;
  *taken = true;
  for (const int warpgroups : {1, 2})
    if (plan_resident(c, warpgroups * kRows, kFilters, kStep, sms, &plan, &shared))
      return warpgroups == 1 ? launch<kFilters, 1>(c, plan, shared, x, k, y, stream)
                             : launch<kFilters, 2>(c, plan, shared, x, k, y, stream);
  *taken = false;
  return FOPS_OK;
}

}  // namespace

fops_status run_image_bands_resident(const fops_conv& c, const Chunks& chunks, int chain, int sms, const float* x,
                                     const float* k, float* y, cudaStream_t stream, bool* taken) {
  Plan plan = {};  // one chunk
  plan.chunks = chunks, plan.chunk_count = 1, plan.chain = chain;
  plan.steps = plan.first_steps = plan.last_steps = chunks.steps_of(0);
  plan.threshold = min_scaled(static_cast<float>(c.C * c.K * c.K));
  switch (ceil_div(c.M, 8)) {
    case 1:
    case 2: return run<16>(c, plan, sms, x, k, y, stream, taken);
    case 3: return run<24>(c, plan, sms, x, k, y, stream, taken);
    default: return run<32>(c, plan, sms, x, k, y, stream, taken);
  }
}

}  // namespace fops::hopper
