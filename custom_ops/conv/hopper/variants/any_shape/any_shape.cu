// Any shape, on Hopper: an implicit GEMM whose operands wgmma reads from shared memory. plan.h explains its terms.
//
//   entries of a slot       | 0 | 1 | 2 | ... | W | W+1 | ...      16 bytes each: 8 channels of a pixel as halves, first
//                                                                  the high parts of all pixels, then the low parts
//   position i, tap (p, q)    reads entry i + p W + q              a tap is an offset, not a copy
//
// A block computes up to 128 filters at up to 256 positions. With few filters a tile's rows hold several taps; with few
// tasks a cluster of blocks divides a task's depth. Two warpgroups are consumers, two are producers: they stage pixels
// chunk by chunk, and one of their warps loads weights and rows of pixels by TMA (raw_rows.cuh).
// Costs: positions in the last K - 1 columns and rows of an image are computed and dropped, except with strips
// (plan.h); weights are packed again in each call.
#include "conv/hopper/choose.h"
#include "conv/hopper/shape_cache.h"
#include "conv/hopper/variants.h"
#include "conv/hopper/variants/any_shape/launch.h"
#include "conv/hopper/variants/any_shape/pack.cuh"
#include "gpu/workspace.h"

namespace fops {
namespace {

using namespace hopper;

struct Planned {
  bool fits = false;  // whether the layer fits into shared memory; otherwise the other fields are not set
  Choice choice;
  Plan plan;  // the plan of `choice`
  Steps steps;
};

Planned plan_call(const fops_conv& c, bool half, int sms) {
  Planned planned;
  Plan usual;
  planned.fits = plan_for(c, default_choice(c), 0, &usual);
  if (!planned.fits) return planned;
  const Candidate chosen = choose_tiling(c, usual, sms);
  planned.choice = chosen.choice, planned.plan = chosen.plan;
  planned.plan.threshold = min_scaled(static_cast<float>(c.C * c.K * c.K));
  planned.plan.half = half;
  planned.steps = steps_for(c, planned.plan);
  return planned;
}

fops_status run(const Call& call, const Choice& choice) {
  const fops_conv& c = call.c;
  const unsigned filters = static_cast<unsigned>(call.plan.blocks * choice.filters());
  const unsigned grid = filters + static_cast<unsigned>(ceil_div(c.B, kImagesPerBlock));
  FOPS_TRY(with_input(c, call.x, [&](auto x) {
    pack_weights<<<grid, kPackThreads, 0, call.stream>>>(dims(c), call.plan, call.steps, choice.tiles, choice.taps, x,
                                                         call.k, call.packed);
    return launched("tensor-core");
  }));
  if (choice.taps > 1) return launch_taps(call, choice);
  return choice.taps == 1 ? launch_stacked(call, choice) : launch_tiles(call, choice);
}

}  // namespace

bool takes_any_shape(const fops_conv& c) {
  Plan plan;
  return takes_any(c) && c.C * c.K * c.K >= kFewestProducts && c.C <= 4096 && c.M <= 4096 && c.K <= kMaxK &&
         c.H * c.W <= 1 << 20 && c.M * c.H * c.W <= 1 << 28 && c.C * c.H * c.W <= 1 << 28 &&
         plan_for(c, default_choice(c), 0, &plan) && usable();
}

fops_status run_any_shape(const fops_conv& c, bool half, const void* x, const float* k, float* y, cudaStream_t stream) {
  int sms = 0;
  FOPS_TRY(count_sms(&sms));
  static thread_local ShapeCache<Planned> cache;
  const Planned& planned = cache.of(c, half, [&] { return plan_call(c, half, sms); });
  if (!planned.fits) return fail(FOPS_UNSUPPORTED, "tensor-core: this shape does not fit into shared memory");
  const Choice& choice = planned.choice;
  const Plan& plan = planned.plan;

  size_t bytes = 0;
  const auto room = [&](size_t more) {  // adds `more` bytes to the workspace; returns their offset
    const size_t at = bytes;
    bytes += ceil_div(more, 128) * 128;
    return at;
  };
  const size_t blocks = plan.parts > 1 ? static_cast<size_t>(plan.tasks) * plan.parts : 0;
  const size_t filters = room(static_cast<size_t>(plan.blocks) * choice.filters() * sizeof(float));
  const size_t images = room(static_cast<size_t>(c.B) * sizeof(ImageScale));
  const size_t kept = room(blocks * plan.kept * (choice.columns / 8) * kConsumerThreads * sizeof(float4));
  const size_t marks = room(blocks * sizeof(uint32_t));
  const size_t tiles = room(static_cast<size_t>(plan.blocks) * plan.steps * choice.step_bytes());
  Workspace workspace(stream);
  FOPS_TRY(workspace.reserve(bytes));
  auto* memory = workspace.as<uint8_t>();
  const Packed packed = {reinterpret_cast<float*>(memory + filters), reinterpret_cast<ImageScale*>(memory + images),
                         reinterpret_cast<float4*>(memory + kept), reinterpret_cast<uint32_t*>(memory + marks),
                         memory + tiles};
  return run({c, plan, planned.steps, x, k, y, packed, stream}, choice);
}

}  // namespace fops
