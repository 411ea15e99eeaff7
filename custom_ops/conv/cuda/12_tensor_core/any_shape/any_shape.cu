// Step 12, any shape, on Hopper: an implicit GEMM whose factors wgmma reads from shared memory.
//
//   pixels of 8 channels    | 0 | 1 | 2 | ... | W | W+1 | ...      16 bytes each, high halves; the low ones behind them
//   position i, tap (p, q)    reads place i + p W + q              a tap is an address, not a copy
//
// A block computes 64 or 128 filters at 256 or 128 positions. Warpgroups divide the work: two multiply, one stages
// pixels chunk by chunk of 16 channels, one thread has weights brought, so that loading hides behind multiplying.
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
constexpr int kColumns = 128, kFewColumns = 32;  // positions of a wgmma; the second where tasks would be few

struct Choice {
  bool stacked;
  int tiles, columns;
  int positions() const { return tiles == 2 ? columns : 2 * columns; }
  int filters() const { return tiles * (stacked ? kTileRows / 2 : kTileRows); }
  int step_bytes() const { return tiles * (stacked ? 1 : 2) * kTileBytes; }
};

// Slots of a chunk: for at least eight steps, so that what a chunk costs beside them is spread out.
int slots_a_chunk(const Chunks& chunks) {
  int a_chunk = 2;
  if (!chunks.full) return chunks.rest;
  while (a_chunk < 8 && a_chunk / 2 * chunks.K * chunks.K < 8) a_chunk *= 2;
  return std::min(a_chunk, chunks.slots());
}

// False where the pixels of a task do not fit into shared memory, however few channels are staged at a time. `a_chunk`:
// slots of a chunk, 0 for as many as fit.
bool plan_for(const fops_conv& c, const Choice& choice, int a_chunk, Plan* plan) {
  const int C = static_cast<int>(c.C), K = static_cast<int>(c.K);
  const int64_t room = static_cast<int64_t>(kShared);
  const int64_t staged = ceil_div(choice.positions() + (K - 1) * c.W + K - 1, 8) * 8;
  Chunks& chunks = plan->chunks = chunks_for(C, K);
  chunks.a_chunk = a_chunk > 0 ? a_chunk : slots_a_chunk(chunks);
  const auto buffer = [&] { return 2 * chunks.a_chunk * staged * 16; };
  const auto fits = [&] {  // two buffers, the ring, and the numbers of steps: 14 bits for a distance, 16 for a place
    return 2 * buffer() + kLeastRing * kGroupBytes <= room && chunks.a_chunk * staged <= 0x3fff;
  };
  while (!fits() && chunks.a_chunk > 1) chunks.a_chunk /= 2;
  if (!fits()) return false;

  plan->chunk_count = chunks.count();
  plan->first_steps = chunks.steps_of(0);
  plan->last_steps = chunks.steps_of(plan->chunk_count - 1);
  plan->steps = (plan->chunk_count - 1) * plan->first_steps + plan->last_steps;
  const int most = kGroupBytes / choice.step_bytes();
  const auto group = [&](int steps) { return static_cast<int>(ceil_div(steps, ceil_div(steps, most))); };
  plan->first_group = group(plan->first_steps), plan->last_group = group(plan->last_steps);
  plan->positions = choice.positions();
  plan->staged = static_cast<int>(staged);
  plan->inverse_staged = inverse_of(static_cast<uint32_t>(staged));
  plan->inverse_pixels = ((uint64_t{1} << 42) + c.H * c.W - 1) / (c.H * c.W);
  plan->buffers = static_cast<int>(
      std::max<int64_t>(2, std::min<int64_t>(kMostBuffers, (room - kWantedRing * kGroupBytes) / buffer())));
  plan->ring = static_cast<int>(std::min<int64_t>(kMostRing, (room - plan->buffers * buffer()) / kGroupBytes));
  plan->blocks = static_cast<int>(ceil_div(c.M, choice.filters()));
  const int64_t last = (out_h(c) - 1) * c.W + out_w(c);  // positions up to an image's last output
  const int64_t by_image = c.B * ceil_div(last, plan->positions);
  const int64_t through = ceil_div((c.B - 1) * c.H * c.W + last, plan->positions);
  plan->by_image = by_image <= through;
  const int64_t tasks = std::min(by_image, through) * plan->blocks;
  if (tasks > INT_MAX) return false;
  plan->spans = static_cast<uint32_t>(plan->by_image ? ceil_div(last, plan->positions) : through);
  plan->tasks = static_cast<uint32_t>(tasks);
  plan->threshold = least_scaled(static_cast<float>(C * K * K));
  return true;
}

template <bool kStacked, int kTiles, int kColumns>
fops_status launch(const fops_conv& c, const Plan& plan, const void* x, const float* k, float* y, const Packed& packed,
                   cudaStream_t stream) {
  const Dims d = dims(c);
  auto* kernel = plan.steps > kLongestChain ? tensor_core_any_shape<kStacked, kTiles, kColumns, true>
                                            : tensor_core_any_shape<kStacked, kTiles, kColumns, false>;
  const size_t shared = kOutgoingBytes + static_cast<size_t>(plan.ring) * kGroupBytes +
                        static_cast<size_t>(plan.buffers) * 2 * plan.chunks.a_chunk * plan.staged * 16;
  FOPS_TRY(allow_shared(kernel, shared));
  unsigned grid = 0;
  FOPS_TRY(resident_grid(kernel, kThreads, shared, plan.tasks, &grid));
  return launch_early(kernel, grid, kThreads, shared, stream, d, plan, c.x_type == FOPS_UINT8, x, k, y, packed);
}

fops_status pack(const fops_conv& c, const Plan& plan, const Choice& choice, const void* x, const float* k,
                 const Packed& packed, cudaStream_t stream) {
  const Dims d = dims(c);
  const unsigned grid = static_cast<unsigned>(plan.blocks * choice.filters() + ceil_div(c.B, kImagesABlock));
  return with_input(c, x, [&](auto typed) {
    pack_weights<<<grid, kPackThreads, 0, stream>>>(d, plan, choice.tiles, choice.stacked, typed, k, packed);
    return launched("tensor-core");
  });
}

Choice choose(const fops_conv& c) {
  // Of few products the one of two low halves shows: only stacked tiles make it.
  const bool stacked = c.M <= 32 || c.C * c.K * c.K < kLeastProducts;
  return {stacked, !stacked && c.M > 64 ? 2 : 1, kColumns};
}

template <bool kStacked, int kTiles>
fops_status launch(const fops_conv& c, const Plan& plan, const Choice& choice, const void* x, const float* k, float* y,
                   const Packed& packed, cudaStream_t stream) {
  return choice.columns == kColumns ? launch<kStacked, kTiles, kColumns>(c, plan, x, k, y, packed, stream)
                                    : launch<kStacked, kTiles, kFewColumns>(c, plan, x, k, y, packed, stream);
}

fops_status run(const fops_conv& c, const Plan& plan, const Choice& choice, const void* x, const float* k, float* y,
                const Packed& packed, cudaStream_t stream) {
  FOPS_TRY(pack(c, plan, choice, x, k, packed, stream));
  if (choice.stacked) return launch<true, 1>(c, plan, choice, x, k, y, packed, stream);
  if (choice.tiles == 1) return launch<false, 1>(c, plan, choice, x, k, y, packed, stream);
  return launch<false, 2>(c, plan, choice, x, k, y, packed, stream);
}

// Whether this thread's device runs the kernel: code that is not for it is empty, and bound to fewer threads.
bool usable() {
  cudaFuncAttributes compiled;
  if (cudaFuncGetAttributes(&compiled, tensor_core_any_shape<true, 1, kColumns, false>) == cudaSuccess)
    return compiled.maxThreadsPerBlock >= kThreads;
  cudaGetLastError();
  return false;
}

}  // namespace

bool takes_tensor_core_any_shape(const fops_conv& c) {
  Plan plan;
  return takes_any(c) && c.C * c.K * c.K >= 16 && c.C <= 4096 && c.M <= 4096 && c.K <= kLargestK &&
         c.H * c.W <= 1 << 20 && c.M * c.H * c.W <= 1 << 28 && c.C * c.H * c.W <= 1 << 28 &&
         plan_for(c, choose(c), 0, &plan) && usable();
}

fops_status run_tensor_core_any_shape(const fops_conv& c, bool half, const void* x, const float* k, float* y,
                                      cudaStream_t stream) {
  Choice choice = choose(c);
  Plan plan;
  if (!plan_for(c, choice, 0, &plan))
    return fail(FOPS_UNSUPPORTED, "tensor-core: this shape does not fit into shared memory");
  int device = 0, multiprocessors = 0;
  FOPS_CUDA(cudaGetDevice(&device));
  FOPS_CUDA(cudaDeviceGetAttribute(&multiprocessors, cudaDevAttrMultiProcessorCount, device));
  if (plan.tasks <= static_cast<uint32_t>(multiprocessors) / 2) {
    // More tasks of fewer positions each, and the same chunks: each output's sum is the same to the last bit.
    choice.columns = kFewColumns;
    plan_for(c, choice, plan.chunks.a_chunk, &plan);
  }
  plan.half = half;
  const auto aligned = [](size_t bytes) { return ceil_div(bytes, 128) * 128; };
  const size_t filters = aligned(static_cast<size_t>(plan.blocks) * choice.filters() * sizeof(float));
  const size_t images = aligned(static_cast<size_t>(c.B) * sizeof(ImageScale));
  const size_t tiles = static_cast<size_t>(plan.blocks) * plan.steps * choice.step_bytes();
  Workspace workspace(stream);
  FOPS_TRY(workspace.reserve(filters + images + tiles));
  auto* memory = workspace.as<uint8_t>();
  const Packed packed = {reinterpret_cast<float*>(memory), reinterpret_cast<ImageScale*>(memory + filters),
                         memory + filters + images};
  return run(c, plan, choice, x, k, y, packed, stream);
}

}  // namespace fops
