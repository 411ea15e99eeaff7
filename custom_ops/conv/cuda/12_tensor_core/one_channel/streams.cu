// Step 12, one channel, 33 filters or more, 5x5, many small images, on Hopper: shifts.cu's products, and nothing waits.
//
//   a warp: pixels  ->  3 warps: units  ->  16 warps: wgmma, outputs  ->  the copy engine
//   of 8 images         of 2 images         a warpgroup a tile            a copy a filter and chunk
//
// What limits such a layer is the writing of y: fa2017's is 37 times as large as x. So each warp has the outputs of its
// filters copied while it makes the next ones, and x is read in phases (gpu/phases.cuh).
// Costs: a block takes a whole multiprocessor, and time to begin: a smaller batch is shifts.cu's. An output is the same
// to the last bit in both.
// Gains: fa2017 0.276 ms, by shifts.cu 0.299; of values of -1 to 1, whose low halves count, 0.349 and 0.417.
#include "conv/cuda/12_tensor_core/direct_band.cuh"
#include "conv/cuda/12_tensor_core/one_channel/shifts.cuh"
#include "gpu/band_scale.cuh"
#include "gpu/claims.cuh"
#include "gpu/isa/wgmma.cuh"
#include "gpu/phases.cuh"

namespace fops {
namespace {

// The lane map. It is that of shifts.cu: lane 4g + t has two neighbouring outputs, from g % 2 * 2 on, of filter g / 2 of
// its warp's four, and of columns 8j + 2t and 8j + 2t + 1.

constexpr int K = 5, kTaps = K * K, kSteps = shifts::steps(K), kShift = shifts::shifts(K);
constexpr int kColumns = 48;                  // of a turn
constexpr int kParts = 2, kGroups = 2 * kParts;  // of a block: parts of the filters, and warpgroups, a tile each
constexpr int kMultipliers = 128 * kGroups, kStagers = 96, kBringer = kMultipliers + kStagers, kThreads = kBringer + 32;
constexpr int kMultiplying = 104, kStaging = 64;  // registers of their threads: a multiprocessor's, dealt out
constexpr int kImages = 2;                        // whose units are in shared memory
constexpr int kMostAhead = 8;                     // images whose pixels are on their way, or wait
constexpr unsigned kNone = ~0u;

// `cut`: as shifts.cu cuts it, in bands as high as an image and two tiles a part.
struct Tiling {
  shifts::Tiling cut;
  int turns;          // of a chunk
  int slots, stride;  // of a warp: chunks of outputs on their way; floats of one from a filter to the next
  int ahead;          // images: see kMostAhead
};

// An image's units, ready to be multiplied.
struct Work {
  unsigned image;  // kNone: there is no more
  bool exact;      // whether all pixels are exact in half
  float rescale;   // undoes the image's scale, where it has one of its own; 0: no scale fits it
};

struct Shared {
  uint64_t arrived[kMostAhead], drained[kMostAhead];  // pixels are there; their room is free
  uint64_t full[kImages], empty[kImages];             // units are there; their room is free
  unsigned images[kMostAhead];
  Work work[kImages];
  unsigned scratch;
};

struct Stagers {
  __device__ int thread() const { return threadIdx.x - kMultipliers; }
  __device__ void sync() const { named_barrier(1, kStagers); }
};

// One thread: takes the block's next image, and has its pixels brought. Multiprocessors differ by a tenth in how fast
// they write, and y is written best from its beginning to its end.
template <typename X>
__device__ void bring_pixels(const Dims& d, const Tiling& tiling, const Phases& phases, Shared& shared, const X* x,
                             X* waiting, unsigned* claims, unsigned block, unsigned blocks) {
  const unsigned given = tiling.ahead * blocks;
  PhaseReader reader(phases, x, claims, given, block);
  unsigned image = block;
  for (Place at;; at.next(tiling.ahead)) {
    while (!barrier_done(&shared.drained[at.at], at.phase ^ 1)) reader.look();
    const bool more = image < d.B;
    shared.images[at.at] = more ? image : kNone;
    const uint32_t bytes = more ? d.H * d.W * sizeof(X) : 0;
    barrier_expect(&shared.arrived[at.at], bytes);
    if (!more) return;
    bulk_load(waiting + at.at * tiling.cut.raw, x + 1LL * image * (d.H * d.W), bytes, &shared.arrived[at.at]);
    image = image < given - blocks ? image + blocks : given + atomicAdd(claims, 1u);
  }
}

// Three warps: pixels become units, [image in turn][high, low][unit].
template <typename X>
__device__ void stage_images(const Dims& d, const Tiling& tiling, Shared& shared, const X* waiting, uint4* units) {
  const Stagers team;
  const int unit_count = tiling.cut.units(K), count = d.H * d.W;
  Place to;
  for (Place at;; at.next(tiling.ahead), to.next(kImages)) {
    barrier_wait(&shared.arrived[at.at], at.phase);
    Work work = {shared.images[at.at], true, 1.0f};
    barrier_wait(&shared.empty[to.at], to.phase ^ 1);
    if (work.image != kNone) {
      const X* here = waiting + at.at * tiling.cut.raw;
      uint4 *hi = units + to.at * 2 * unit_count, *lo = hi + unit_count;
      const bool exact =
          shifts::stage<K, false, kStagers>(tiling.cut, d.W, here, count, kImageScale, hi, lo, team.thread());
      work.exact = !named_barrier_or(1, kStagers, !exact);
      if (!work.exact) {
        const float scale = band_scale<kStagers>(here, count, least_scaled(kTaps), &shared.scratch, team);
        work.rescale = scale == 0.0f ? 0.0f : kImageScale / scale;
        shifts::stage<K, true, kStagers>(tiling.cut, d.W, here, count, scale, hi, lo, team.thread());
      }
      bulk_fence();
    }
    if (team.thread() == 0) shared.work[to.at] = work;
    barrier_arrive(&shared.full[to.at]);
    barrier_arrive(&shared.drained[at.at]);
    if (work.image == kNone) return;
  }
}

template <typename X>
__global__ void __launch_bounds__(bound_with_wgmma(kThreads), 1)
    tensor_core_streams(const __grid_constant__ Dims d, const __grid_constant__ Tiling tiling,
                        const __grid_constant__ Phases phases, const X* __restrict__ x, const float* __restrict__ k,
                        float* __restrict__ y, unsigned* claims) {
#if FOPS_SM_90A
  extern __shared__ __align__(128) uint4 dynamic[];
  __shared__ Shared shared;
  const shifts::Tiling& cut = tiling.cut;
  const int unit_count = cut.units(K), plane = d.OH * d.OW;
  uint4* units = dynamic;
  X* waiting = reinterpret_cast<X*>(units + 2 * kImages * unit_count);
  float* outgoing = reinterpret_cast<float*>(waiting + tiling.ahead * cut.raw);
  if (threadIdx.x == 0) {
    for (int i = 0; i < tiling.ahead; ++i) {
      barrier_init(&shared.arrived[i], 1);
      barrier_init(&shared.drained[i], kStagers);
    }
    for (int i = 0; i < kImages; ++i) {
      barrier_init(&shared.full[i], kStagers);
      barrier_init(&shared.empty[i], kMultipliers / 32);
    }
    barrier_init_end();
  }

  // Filters, counted from the block's first one: of the block, of this warpgroup's part, its tile, and this warp.
  const int warp = __shfl_sync(0xffffffffu, threadIdx.x / 32, 0), group = warp / 4 % kGroups;
  const int pair = static_cast<int>(blockIdx.x % (cut.parts / kParts)), m0 = pair * kParts * d.M;
  const int of_block = min(kParts * d.M, cut.filters - m0), m_part = group / 2 * d.M;
  const int of_part = min(d.M, of_block - m_part), m_tile = m_part + group % 2 * cut.split;
  const int of_tile = group % 2 ? of_part - cut.split : min(cut.split, of_part);
  const int m_warp = m_tile + warp % 4 * 4, of_warp = min(4, of_tile - warp % 4 * 4);
  k += m0 * kTaps;

  // One scale for all weights of a part. They are read several times: the first time they go to where outputs will lie.
  float filter_scale = 1.0f;
  bool finite = true;
  for (int p = 0; p < kParts; ++p) {
    float largest = 0.0f;
    uint32_t smallest = ~0u;
    for (int i = p * d.M * kTaps + threadIdx.x; i < min((p + 1) * d.M, of_block) * kTaps; i += kThreads) {
      const float v = __ldg(k + i);
      outgoing[i] = v;
      largest = larger(largest, v), smallest = min(smallest, nonzero_bits(v));
    }
    largest = block_max(largest, &shared.scratch);
    const float scale = scale_for(largest);
    const bool fits = smallest >= nonzero_bits(least_scaled(kTaps) / scale) && largest < kLargestScaled;
    const bool all_fit = __syncthreads_and(fits);
    if (p == group / 2) filter_scale = scale, finite = all_fit;
  }
  if (warp >= kMultipliers / 32) {
    registers_down<kStaging>();
    if (warp < kBringer / 32)
      stage_images(d, tiling, shared, waiting, units);
    else if (threadIdx.x == kBringer)
      bring_pixels(d, tiling, phases, shared, x, waiting, claims + pair, blockIdx.x / (cut.parts / kParts),
                   gridDim.x / (cut.parts / kParts));
    return;
  }

  registers_up<kMultiplying>();
  uint32_t w_hi[kSteps][4], w_lo[kSteps][4];
  shifts::load_weights<K>(outgoing + m_tile * kTaps, of_tile, filter_scale, w_hi, w_lo);
  named_barrier(2, kMultipliers);  // outputs may lie there
  const float unscale = 1.0f / kImageScale / filter_scale;
  const int lane = threadIdx.x % 32, g = lane / 4, t = lane % 4, columns = d.OH * cut.a_row;
  const bool mine = g / 2 < of_warp;
  // Of two neighbouring filters one stores the first column first, the other one the second: so they meet in no bank.
  const bool odd = g / 2 % 2;
  const int second = odd ? -4 * kShift : 4 * kShift;
  const int lane_at = g / 2 * tiling.stride + (2 * t + odd) * kShift + g % 2 * 2;
  // [filter of the block][slot][output of a chunk], but that a warp's filters have their slots in common.
  float* const slots = outgoing + m_warp * tiling.slots * tiling.stride;
  int slot = 0;
  float high[kColumns / 2], low[kColumns / 2];
  for (Place at;; at.next(kImages)) {
    barrier_wait(&shared.full[at.at], at.phase);
    const Work& work = shared.work[at.at];
    if (work.image == kNone) break;
    float* const out = y + (1LL * work.image * cut.filters + m0) * plane;
    if (!finite || work.rescale == 0.0f) {
      direct_band(x + 1LL * work.image * (d.H * d.W), k + m_part * kTaps, out + m_part * plane, 1, d.H, d.W, of_part, K,
                  0, d.OH, threadIdx.x % 256, 256);
    } else {
      // Of a descriptor, the half that changes: in its units, 16 bytes, a unit is a number to add.
      const uint32_t corner = core_descriptor(shared_address(units + at.at * 2 * unit_count), 0, 128);
      for (int first = 0; first < columns; first += tiling.turns * kColumns) {
        const int some = min(tiling.turns * kColumns, columns - first);
        float* const gathered = slots + slot * of_warp * tiling.stride;
        uint32_t unit = corner + first, to = shared_address(gathered + lane_at);
        const uint32_t end = unit + some;
        bulk_wait_read_but(tiling.slots - 1);
        __syncwarp();
        const auto product = [&](float(&sum)[kColumns / 2], const uint32_t(&a)[4], int s, int halves, int keep) {
          const int two = 2 * s + 1 < K ? cut.a_row : 0;  // from the first unit to the second
          wgmma_from<kColumns>(sum, a, unit + halves + 2 * s * cut.a_row + (two << 16), keep);
        };
        const auto put = [&](float by) {
#pragma unroll
          for (int j = 0; j < kColumns / 8; ++j, to += 4 * 8 * kShift) {
            float v[4];
#pragma unroll
            for (int e = 0; e < 4; ++e) v[e] = (high[4 * j + e] + low[4 * j + e] * (1.0f / kLowScale)) * by;
            store_shared_if(mine, to, odd ? v[1] : v[0], odd ? v[3] : v[2]);
            store_shared_if(mine, to + second, odd ? v[0] : v[1], odd ? v[2] : v[3]);
          }
        };
        if (work.exact) {
          do {
            wgmma_fence();
#pragma unroll
            for (int s = 0; s < kSteps; ++s) {
              product(high, w_hi[s], s, 0, s > 0);
              product(low, w_lo[s], s, 0, s > 0);
            }
            wgmma_commit();
            wgmma_wait(high);
            wgmma_wait(low);
            put(unscale);
          } while ((unit += kColumns) < end);
        } else {
          const float rescale = work.rescale;
          const shifts::LastStep<K> last_step(w_lo);
          do {  // two chains, as in shifts.cu
            wgmma_fence();
#pragma unroll
            for (int s = 0; s < kSteps; ++s) {
              if (s == kSteps - 1)
                product(low, last_step.weights, s, last_step.distance(unit_count, cut.a_row), 1);
              else
                product(low, w_lo[s], s, 0, s > 0);
              product(low, w_hi[s], s, unit_count, 1);
              if (s < 2) product(high, w_hi[s], s, 0, s > 0);
            }
            wgmma_commit();
            wgmma_wait(high);
            wgmma_wait(low);
#pragma unroll
            for (int e = 0; e < kColumns / 2; ++e) low[e] += high[e] * kLowScale;
            wgmma_fence();
            product(high, w_hi[2], 2, 0, 0);
            wgmma_commit();
            wgmma_wait(high);
#pragma unroll
            for (int e = 0; e < kColumns / 2; ++e)
              high[e] = (high[e] + low[e] * (1.0f / kLowScale)) * unscale, low[e] = 0.0f;
            put(rescale);
          } while ((unit += kColumns) < end);
        }
        bulk_fence();
        __syncwarp();
        if (lane < of_warp)
          bulk_store(out + (m_warp + lane) * plane + first * kShift, gathered + lane * tiling.stride, some * kShift * 4);
        bulk_commit();
        if (++slot == tiling.slots) slot = 0;
      }
    }
    __syncwarp();
    if (lane == 0) barrier_arrive(&shared.empty[at.at]);
  }
  bulk_wait_read();  // shared memory outlives the copies that read it
#endif
}

// 12 and 16 filters of larger images gained nothing (1 to 12, 48x48), or lost (1 to 16, 56x56: 0.173 and 0.145 ms); so
// did images that leave a fifth of the turns empty (1 to 50, 32x32: 0.253 and 0.248 ms).
bool takes(const fops_conv& c, const shifts::Tiling& cut, unsigned blocks) {
  const int columns = cut.rows * cut.a_row, turns = static_cast<int>(ceil_div(columns, kColumns));
  return c.K == K && cut.two && cut.parts % kParts == 0 && cut.bands == 1 && 7 * turns * kColumns <= 8 * columns &&
         cut.vector_in && cut.vector_out && c.B >= 8LL * blocks;
}

}  // namespace

fops_status run_tensor_core_streams(const fops_conv& c, const shifts::Tiling& cut, const void* x, const float* k,
                                    float* y, cudaStream_t stream, bool* taken) {
  int multiprocessors = 0;
  FOPS_TRY(count_multiprocessors(&multiprocessors));
  const int pairs = cut.parts / kParts;
  const unsigned blocks = std::max(1, multiprocessors / std::max(1, pairs));
  if (!takes(c, cut, blocks)) return FOPS_OK;
  return with_input(c, x, [&](auto typed) {
    using In = std::remove_cv_t<std::remove_pointer_t<decltype(typed)>>;
    auto* kernel = tensor_core_streams<In>;
    Dims d = dims(c);
    d.M = static_cast<int>(ceil_div(c.M, cut.parts));
    Tiling t = {};
    t.cut = cut, t.ahead = kMostAhead;
    const int64_t of_block = std::min<int64_t>(kParts * d.M, c.M);
    const auto bytes = [&] {
      return 2 * kImages * sizeof(uint4) * cut.units(K) + t.ahead * cut.raw * sizeof(In) +
             sizeof(float) * of_block * t.slots * t.stride;
    };
    // A turn's outputs of a filter are 768 bytes: copies of more, two and three turns, took 1% longer.
    t.turns = 1, t.stride = kColumns * kShift;
    for (t.slots = 4; !shared_fits(bytes() + sizeof(Shared));) {
      if (t.ahead > 4) --t.ahead;
      else if (t.slots > 2) --t.slots;
      else if (t.ahead > 2) --t.ahead;
      else return FOPS_OK;
    }
    FOPS_TRY(allow_shared(kernel, bytes()));
    *taken = true;
    const Phases phases = phases_for(c.B, 1LL * d.H * d.W * sizeof(In), 1, blocks);
    Claims claims(stream);
    FOPS_TRY(claims.reserve(c.B, blocks, pairs));
    kernel<<<blocks * pairs, kThreads, bytes(), stream>>>(d, t, phases, typed, k, y, claims.counters());
    return launched("tensor-core");
  });
}

}  // namespace fops
