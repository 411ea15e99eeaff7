// Step 12, any shape, on Hopper: an implicit GEMM whose factors wgmma reads from shared memory.
//
//   pixels of 8 channels    | 0 | 1 | 2 | ... | W | W+1 | ...      16 bytes each, high halves; the low ones behind them
//   position i, tap (p, q)    reads place i + p W + q              a tap is an address, not a copy
//
// A block computes up to 128 filters at up to 256 positions; of few filters its rows hold several taps, and of a small
// batch several blocks share the depth. Warpgroups divide the work: two multiply, two stage pixels chunk by chunk of 16
// channels, one thread has weights brought, so that loading hides behind multiplying.
// Costs: positions in the K - 1 last columns of a row are computed and dropped; weights are packed anew each call.
#include "conv/cuda/12_tensor_core/any_shape/kernel.cuh"

#include <algorithm>
#include <climits>

#include "conv/cuda/12_tensor_core/tensor_core.h"
#include "conv/cuda/kernels.h"
#include "gpu/workspace.h"

namespace fops {
namespace {

using namespace any_shape;

constexpr size_t kShared = 227 * 1024 - sizeof(Shared) - kOutgoingBytes - 1024;  // what Hopper gives a block
constexpr int kLeastRing = 2, kWantedRing = 4;

// How tasks are cut; an output is the same to the last bit whichever way. `columns` are positions of a wgmma: 128, or
// 112 and 72 where an image's end would leave most of 128 empty, or 32 where tasks would be few; then `parts` blocks may
// share the depth as well.
struct Choice {
  int taps, tiles, columns, parts;  // taps: see Form
  int filters() const { return tiles * (taps > 0 ? kTileRows / 2 / taps : kTileRows); }
  int step_bytes() const { return tiles * (taps > 0 ? 1 : 2) * kTileBytes; }
  // Steps whose weights are brought together. They decide where chains end, so they are the same for one tile and two.
  int group() const { return taps > 0 ? 8 : 4; }
};
constexpr int kMostColumns = 128, kFewColumns = 32, kMostReach = 8;

// Slots of a chunk: for at least eight steps, so that what a chunk costs beside them is spread out.
int slots_a_chunk(const Chunks& chunks) {
  int a_chunk = 2;
  if (!chunks.full) return chunks.rest;
  while (a_chunk < 8 && a_chunk / 2 * chunks.units({0, 8}) < 8) a_chunk *= 2;
  return std::min(a_chunk, chunks.slots());
}

// The chains of some chunks, and their segments' small products: what the kernel's loop closes.
int sums_of(const Plan& plan, int begin, int end) {
  int sums = 0;
  for (int chunk = begin, chain = 0; chunk < end; ++chunk) {
    const bool last = chunk == plan.chunk_count - 1, ends = last || (chunk + 1) % plan.segment == 0;
    const int steps = last ? plan.last_steps : plan.first_steps, group = last ? plan.last_group : plan.first_group;
    for (int at = 0; at < steps; at += group) {
      chain += std::min(group, steps - at);
      if (chain + group > plan.chain || (ends && at + group >= steps)) chain = 0, ++sums;
    }
    sums += ends;
  }
  return sums;
}

// False where the pixels of a task do not fit into shared memory, however few channels are staged at a time. `a_chunk`:
// slots of a chunk, 0 for as many as fit.
bool plan_for(const fops_conv& c, const Choice& choice, int a_chunk, Plan* plan) {
  const int C = static_cast<int>(c.C), K = static_cast<int>(c.K);
  const int64_t room = static_cast<int64_t>(kShared);
  Chunks& chunks = plan->chunks = chunks_for(C, K);
  chunks.taps = std::max(1, choice.taps);
  plan->reach = (chunks.taps - 1) * chunks.shift;
  plan->positions = choice.columns - plan->reach;
  if (choice.tiles == 1) plan->positions *= 2;
  const int64_t staged = ceil_div(plan->positions + plan->reach + (K - 1) * c.W + K - 1, 8) * 8;
  plan->group_bytes = choice.group() * choice.step_bytes();
  chunks.a_chunk = a_chunk > 0 ? a_chunk : slots_a_chunk(chunks);
  const auto buffer = [&] { return 2 * chunks.a_chunk * staged * 16; };
  const auto fits = [&] {  // two buffers, the ring, and the numbers of steps: 14 bits for a distance, 16 for a place
    return 2 * buffer() + kLeastRing * plan->group_bytes <= room && chunks.a_chunk * staged <= 0x3fff;
  };
  while (!fits() && chunks.a_chunk > 1) chunks.a_chunk /= 2;
  if (!fits()) return false;

  plan->chunk_count = chunks.count();
  plan->first_steps = chunks.steps_of(0);
  plan->last_steps = chunks.steps_of(plan->chunk_count - 1);
  plan->steps = (plan->chunk_count - 1) * plan->first_steps + plan->last_steps;
  plan->chain = longest_chain(plan->steps);
  plan->segment = static_cast<int>(ceil_div(kLeastSegment, plan->first_steps));
  plan->parts = choice.parts;
  const auto group = [&](int steps) { return static_cast<int>(ceil_div(steps, ceil_div(steps, choice.group()))); };
  plan->first_group = group(plan->first_steps), plan->last_group = group(plan->last_steps);
  plan->staged = static_cast<int>(staged);
  plan->inverse_staged = inverse_of(static_cast<uint32_t>(staged));
  plan->inverse_pixels = ((uint64_t{1} << 42) + c.H * c.W - 1) / (c.H * c.W);
  plan->buffers = static_cast<int>(
      std::max<int64_t>(2, std::min<int64_t>(kMostBuffers, (room - kWantedRing * plan->group_bytes) / buffer())));
  plan->ring = static_cast<int>(std::min<int64_t>(kMostRing, (room - plan->buffers * buffer()) / plan->group_bytes));
  plan->blocks = static_cast<int>(ceil_div(c.M, choice.filters()));
  const int64_t last = (out_h(c) - 1) * c.W + out_w(c);  // positions up to an image's last output
  const int64_t by_image = c.B * ceil_div(last, plan->positions);
  const int64_t through = ceil_div((c.B - 1) * c.H * c.W + last, plan->positions);
  plan->by_image = by_image <= through;
  plan->kept = 0;
  for (int part = 0; part < plan->parts; ++part)
    plan->kept = std::max(plan->kept, sums_of(*plan, plan->begin(part), plan->begin(part + 1)));
  const int64_t tasks = std::min(by_image, through) * plan->blocks;
  if (tasks > INT_MAX) return false;
  plan->spans = static_cast<uint32_t>(plan->by_image ? ceil_div(last, plan->positions) : through);
  plan->tasks = static_cast<uint32_t>(tasks);
  plan->threshold = least_scaled(static_cast<float>(C * K * K));
  return true;
}

struct Call {
  const fops_conv& c;
  const Plan& plan;
  const Steps& steps;
  const void* x;
  const float* k;
  float* y;
  Packed packed;
  cudaStream_t stream;
};

template <typename Kernel>
fops_status launch(const Call& call, Kernel* kernel) {
  const Plan& plan = call.plan;
  const size_t shared = kOutgoingBytes + static_cast<size_t>(plan.ring) * plan.group_bytes +
                        static_cast<size_t>(plan.buffers) * 2 * plan.chunks.a_chunk * plan.staged * 16;
  FOPS_TRY(allow_shared(kernel, shared));
  unsigned grid = plan.tasks * plan.parts;  // few, where there are parts: a cluster has one task
  if (plan.parts == 1) FOPS_TRY(resident_grid(kernel, kThreads, shared, plan.tasks, &grid));
  return launch_early(kernel, grid, plan.parts, kThreads, shared, call.stream, dims(call.c), plan, call.steps,
                      call.c.x_type == FOPS_UINT8, call.x, call.k, call.y, call.packed);
}

template <int kTaps, int kTiles, int kColumns>
fops_status launch(const Call& call) {
  if (call.plan.steps > kOneChain)
    return launch(call, tensor_core_any_shape<kTaps, kTiles, kColumns, true, false>);
  return launch(call, tensor_core_any_shape<kTaps, kTiles, kColumns, false, false>);
}

template <int kTaps, int kTiles>
fops_status launch(const Call& call, const Choice& choice) {
  if constexpr (kTiles == 1) {
    if (choice.parts > 1) return launch(call, tensor_core_any_shape<kTaps, 1, kFewColumns, true, true>);
    if (choice.columns == kFewColumns) return launch<kTaps, 1, kFewColumns>(call);
  }
  switch (choice.columns) {
    case 72: return launch<kTaps, kTiles, 72>(call);
    case 112: return launch<kTaps, kTiles, 112>(call);
    default: return launch<kTaps, kTiles, kMostColumns>(call);
  }
}

fops_status run(const Call& call, const Choice& choice) {
  const fops_conv& c = call.c;
  const unsigned filters = static_cast<unsigned>(call.plan.blocks * choice.filters());
  const unsigned grid = filters + static_cast<unsigned>(ceil_div(c.B, kImagesABlock));
  FOPS_TRY(with_input(c, call.x, [&](auto x) {
    pack_weights<<<grid, kPackThreads, 0, call.stream>>>(dims(c), call.plan, call.steps, choice.tiles, choice.taps, x, call.k,
                                                         call.packed);
    return launched("tensor-core");
  }));
  switch (choice.taps) {
    case 1: return launch<1, 1>(call, choice);
    case 2: return launch<2, 1>(call, choice);
    case 4: return launch<4, 1>(call, choice);
    case 8: return launch<8, 1>(call, choice);
    default: return choice.tiles == 1 ? launch<0, 1>(call, choice) : launch<0, 2>(call, choice);
  }
}

// The usual way. Rows that few filters leave are for other taps, as long as a filter's row takes fewer steps then.
Choice usual(const fops_conv& c) {
  // Of few products the one of two low halves shows: only stacked tiles make it.
  const bool stacked = c.M <= 32 || c.C * c.K * c.K < kLeastProducts;
  Choice choice = {stacked ? 1 : 0, !stacked && c.M > 64 ? 2 : 1, kMostColumns, 1};
  Chunks chunks = chunks_for(static_cast<int>(c.C), static_cast<int>(c.K));
  const auto units = [&](int taps) {
    chunks.taps = taps;
    return chunks.full ? chunks.row_units({0, 8}) : chunks.row_units(chunks.slot(0));
  };
  for (int taps = 2; c.M * taps <= 32 && (taps - 1) * chunks.shift <= kMostReach; taps *= 2)
    if (units(taps) < units(choice.taps)) choice.taps = taps;
  return choice;
}

// About how many cycles a way takes: tasks of the busiest multiprocessor, times a task's products and what else it does.
// An instruction takes a cycle for two columns, and some to read its filters.
double cycles(const Choice& choice, const Plan& plan, int multiprocessors) {
  const int products = choice.taps > 0 ? 2 : 3, warpgroups = 2;
  const double steps = static_cast<double>(plan.steps) / choice.parts;
  const double a_task = steps * products * warpgroups * (12 + choice.columns / 2) + 6000 + (choice.parts > 1 ? 4000 : 0);
  return a_task * static_cast<double>(ceil_div(static_cast<int64_t>(plan.tasks) * choice.parts, multiprocessors));
}

// The fastest way by `cycles`; all stage the same chunks as the usual one, whose plan is given.
Choice choose(const fops_conv& c, int multiprocessors, Plan* plan) {
  Choice best = usual(c);
  double least = cycles(best, *plan, multiprocessors);
  const int tiles = best.tiles, a_chunk = plan->chunks.a_chunk;
  const int segments = static_cast<int>(ceil_div(plan->chunk_count, plan->segment));
  const auto consider = [&](Choice choice) {
    Plan other;
    if (!plan_for(c, choice, a_chunk, &other) || other.chunks.a_chunk != a_chunk) return;
    if (const double time = cycles(choice, other, multiprocessors); time < least)
      least = time, best = choice, *plan = other;
  };
  for (const int columns : {112, 72}) consider({best.taps, tiles, columns, 1});
  for (int parts = 1; parts <= std::min(segments, kMostParts); parts *= 2)
    if (parts == 1 || plan->steps > kOneChain) consider({best.taps, 1, kFewColumns, parts});
  return best;
}

// Whether this thread's device runs the kernel: code that is not for it is empty, and bound to fewer threads.
bool usable() {
  cudaFuncAttributes compiled;
  if (cudaFuncGetAttributes(&compiled, tensor_core_any_shape<1, 1, kMostColumns, false, false>) == cudaSuccess)
    return compiled.maxThreadsPerBlock >= kThreads;
  cudaGetLastError();
  return false;
}

}  // namespace

bool takes_tensor_core_any_shape(const fops_conv& c) {
  Plan plan;
  return takes_any(c) && c.C * c.K * c.K >= 16 && c.C <= 4096 && c.M <= 4096 && c.K <= kLargestK &&
         c.H * c.W <= 1 << 20 && c.M * c.H * c.W <= 1 << 28 && c.C * c.H * c.W <= 1 << 28 &&
         plan_for(c, usual(c), 0, &plan) && usable();
}

fops_status run_tensor_core_any_shape(const fops_conv& c, bool half, const void* x, const float* k, float* y,
                                      cudaStream_t stream) {
  Plan plan;
  if (!plan_for(c, usual(c), 0, &plan))
    return fail(FOPS_UNSUPPORTED, "tensor-core: this shape does not fit into shared memory");
  int device = 0, multiprocessors = 0;
  FOPS_CUDA(cudaGetDevice(&device));
  FOPS_CUDA(cudaDeviceGetAttribute(&multiprocessors, cudaDevAttrMultiProcessorCount, device));
  const Choice choice = choose(c, multiprocessors, &plan);
  plan.half = half;
  Steps steps;
  for (const int last : {0, 1}) {
    const int chunk = last * (plan.chunk_count - 1);
    for (int step = 0; step < plan.chunks.steps_of(chunk); ++step) {
      steps.places[last][step] = place_of(plan.chunks, chunk, step, static_cast<uint32_t>(plan.staged),
                                          static_cast<uint32_t>(c.W));
      for (const int half : {0, 1}) steps.origins[last][2 * step + half] = origin_of(plan.chunks, chunk, step, half);
    }
  }

  size_t bytes = 0;
  const auto room = [&](size_t more) {  // where it begins
    const size_t at = bytes;
    bytes += ceil_div(more, 128) * 128;
    return at;
  };
  const size_t blocks = plan.parts > 1 ? static_cast<size_t>(plan.tasks) * plan.parts : 0;
  const size_t filters = room(static_cast<size_t>(plan.blocks) * choice.filters() * sizeof(float));
  const size_t images = room(static_cast<size_t>(c.B) * sizeof(ImageScale));
  const size_t kept = room(blocks * plan.kept * (choice.columns / 8) * kMultipliers * sizeof(float4));
  const size_t marks = room(blocks * sizeof(uint32_t));
  const size_t tiles = room(static_cast<size_t>(plan.blocks) * plan.steps * choice.step_bytes());
  Workspace workspace(stream);
  FOPS_TRY(workspace.reserve(bytes));
  auto* memory = workspace.as<uint8_t>();
  const Packed packed = {reinterpret_cast<float*>(memory + filters), reinterpret_cast<ImageScale*>(memory + images),
                         reinterpret_cast<float4*>(memory + kept), reinterpret_cast<uint32_t*>(memory + marks),
                         memory + tiles};
  return run({c, plan, steps, x, k, y, packed, stream}, choice);
}

}  // namespace fops
