// The second kernel of shifted_filters.cu, for 33 or more 5x5 filters and many small images: a pipeline of specialised
// warps.
//
//   TMA warp: pixels   ->   3 producer warps: units   ->   16 consumer warps: wgmma   ->   TMA: outputs
//   of up to 8 images       of 2 images                    a tile per warpgroup            a copy per filter and chunk
//
// Writing y is the limit of these layers: fa2017's y is 37 times as large as x. So TMA copies a warp's outputs while
// the warp computes the next ones, and x is read in phases (gpu/phases.cuh).
// Costs: a block takes a whole SM, and needs time to start. Smaller batches run the kernel of shifted_filters.cu, which
// gives the same bits.
#include "conv/hopper/fallback.cuh"
#include "conv/hopper/pipeline.cuh"
#include "conv/hopper/scheduler.cuh"
#include "conv/hopper/variants/shifted_filters.cuh"
#include "gpu/band_scale.cuh"
#include "gpu/phases.cuh"

namespace fops {
namespace {

// The lane map is that of shifted_filters.cu: lane 4g + t has two neighbouring outputs, from g % 2 * 2 on, of filter g
// / 2 of its warp's four, and of columns 8j + 2t and 8j + 2t + 1.

constexpr int K = 5, kTaps = K * K, kSteps = shifted_filters::steps(K), kShift = shifted_filters::shifts(K);
constexpr int kColumns = 48;  // columns per turn
constexpr int kParts = 2,     // parts of the filters that a block computes
    kGroups = 2 * kParts;     // consumer warpgroups: two per part, with one tile each
constexpr int kConsumerThreads = 128 * kGroups, kProducerThreads = 96, kTmaThread = kConsumerThreads + kProducerThreads,
              kThreads = kTmaThread + 32;
constexpr int kConsumerRegisters = 104, kProducerRegisters = 64;  // registers per thread; together they fill an SM's
constexpr int kImages = 2;                                        // number of images whose units are in shared memory
constexpr int kMaxAhead = 8;  // maximum number of images whose original pixels are in shared memory or being loaded
constexpr unsigned kNone = ~0u;

struct Tiling {
  shifted_filters::Tiling cut;  // the tiling of shifted_filters.cu; a band is a whole image, and a part has two tiles
  int turns;                    // turns per chunk
  int slots, stride;            // per warp: chunks of outputs in flight; floats from one filter's outputs to the next
  int ahead;                    // number of images whose original pixels are in shared memory or being loaded
};

struct Work {
  unsigned image;  // number of the image; kNone: there are no more images
  bool exact;      // whether all pixels are exact in half precision
  float rescale;   // 1, or kImageScale divided by the image's scale; 0 if the image cannot be split well
};

struct Shared {
  uint64_t arrived[kMaxAhead], drained[kMaxAhead];  // mbarriers: original pixels have arrived; may be overwritten
  uint64_t full[kImages], empty[kImages];           // mbarriers: units may be read; may be overwritten
  unsigned images[kMaxAhead];                       // numbers of the images whose original pixels these are
  Work work[kImages];
  unsigned scratch;
};

struct Producers {
  __device__ int thread() const { return threadIdx.x - kConsumerThreads; }
  __device__ void sync() const { named_barrier(kPipelinedProducers, kProducerThreads); }
};

// The work of one thread: takes the block's next images and starts the loads of their pixels. Images are numbered by a
// counter, because SMs differ by a tenth in the speed of their writes, and y is written fastest from its beginning to
// its end.
template <typename X>
__device__ void load_pixels(const Dims& d, const Tiling& tiling, const Phases& phases, Shared& shared, const X* x,
                            X* waiting, unsigned* tile_counter, unsigned block, unsigned blocks) {
  const unsigned given = tiling.ahead * blocks;
  PhaseReader reader(phases, x, tile_counter, given, block);
  unsigned image = block;
  for (PipelineState at;; at.next(tiling.ahead)) {
    while (!barrier_done(&shared.drained[at.stage], at.phase ^ 1)) reader.look();
    const bool more = image < d.B;
    shared.images[at.stage] = more ? image : kNone;
    const uint32_t bytes = more ? d.H * d.W * sizeof(X) : 0;
    barrier_expect(&shared.arrived[at.stage], bytes);
    if (!more) return;
    bulk_load(waiting + at.stage * tiling.cut.raw, x + 1LL * image * (d.H * d.W), bytes, &shared.arrived[at.stage]);
    image = image < given - blocks ? image + blocks : given + atomicAdd(tile_counter, 1u);
  }
}

// The work of three warps: stages images as units, [buffer][high, low][unit].
template <typename X>
__device__ void stage_images(const Dims& d, const Tiling& tiling, Shared& shared, const X* waiting, uint4* units) {
  const Producers team;
  const int unit_count = tiling.cut.units(K), count = d.H * d.W;
  PipelineState to;
  for (PipelineState at;; at.next(tiling.ahead), to.next(kImages)) {
    barrier_wait(&shared.arrived[at.stage], at.phase);
    Work work = {shared.images[at.stage], true, 1.0f};
    barrier_wait(&shared.empty[to.stage], to.phase ^ 1);
    if (work.image != kNone) {
      const X* here = waiting + at.stage * tiling.cut.raw;
      uint4 *hi = units + to.stage * 2 * unit_count, *lo = hi + unit_count;
      const bool exact = shifted_filters::stage<K, false, kProducerThreads>(tiling.cut, d.W, here, count, kImageScale,
                                                                            hi, lo, team.thread());
      work.exact = !named_barrier_or(kPipelinedProducers, kProducerThreads, !exact);
      if (!work.exact) {
        const float scale = band_scale<kProducerThreads>(here, count, min_scaled(kTaps), &shared.scratch, team);
        work.rescale = scale == 0.0f ? 0.0f : kImageScale / scale;
        shifted_filters::stage<K, true, kProducerThreads>(tiling.cut, d.W, here, count, scale, hi, lo, team.thread());
      }
      bulk_fence();
    }
    if (team.thread() == 0) shared.work[to.stage] = work;
    barrier_arrive(&shared.full[to.stage]);
    barrier_arrive(&shared.drained[at.stage]);
    if (work.image == kNone) return;
  }
}

template <typename X>
__global__ void __launch_bounds__(bound_with_wgmma(kThreads), 1)
    tensor_core_shifted_filters_pipelined(const __grid_constant__ Dims d, const __grid_constant__ Tiling tiling,
                                          const __grid_constant__ Phases phases, const X* __restrict__ x,
                                          const float* __restrict__ k, float* __restrict__ y, unsigned* tile_counter) {
#if FOPS_SM_90A
  extern __shared__ __align__(128) uint4 dynamic[];
  __shared__ Shared shared;
  const shifted_filters::Tiling& cut = tiling.cut;
  const int unit_count = cut.units(K), plane = d.OH * d.OW;
  uint4* units = dynamic;
  X* waiting = reinterpret_cast<X*>(units + 2 * kImages * unit_count);
  float* outgoing = reinterpret_cast<float*>(waiting + tiling.ahead * cut.raw);
  if (threadIdx.x == 0) {
    for (int i = 0; i < tiling.ahead; ++i) {
      barrier_init(&shared.arrived[i], 1);
      barrier_init(&shared.drained[i], kProducerThreads);
    }
    for (int i = 0; i < kImages; ++i) {
      barrier_init(&shared.full[i], kProducerThreads);
      barrier_init(&shared.empty[i], kConsumerThreads / 32);
    }
    barrier_init_end();
  }

  // First filters (m) and numbers of filters (of) of the block, of this warpgroup's part, of its tile, and of this
  // warp. m_part, m_tile and m_warp are counted from the block's first filter.
  const int warp = __shfl_sync(0xffffffffu, threadIdx.x / 32, 0), group = warp / 4 % kGroups;
  const int pair = static_cast<int>(blockIdx.x % (cut.parts / kParts)), m0 = pair * kParts * d.M;
  const int of_block = min(kParts * d.M, cut.filters - m0), m_part = group / 2 * d.M;
  const int of_part = min(d.M, of_block - m_part), m_tile = m_part + group % 2 * cut.split;
  const int of_tile = group % 2 ? of_part - cut.split : min(cut.split, of_part);
  const int m_warp = m_tile + warp % 4 * 4, of_warp = min(4, of_tile - warp % 4 * 4);
  k += m0 * kTaps;

  // All weights of a part have the same scale. They are read several times, so they are copied to the buffer for
  // outputs first.
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
    const bool fits = smallest >= nonzero_bits(min_scaled(kTaps) / scale) && largest < kLargestScaled;
    const bool all_fit = __syncthreads_and(fits);
    if (p == group / 2) filter_scale = scale, finite = all_fit;
  }
  if (warp >= kConsumerThreads / 32) {
    setmaxnreg_dec<kProducerRegisters>();
    if (warp < kTmaThread / 32)
      stage_images(d, tiling, shared, waiting, units);
    else if (threadIdx.x == kTmaThread)
      load_pixels(d, tiling, phases, shared, x, waiting, tile_counter + pair, blockIdx.x / (cut.parts / kParts),
                  gridDim.x / (cut.parts / kParts));
    return;
  }

  setmaxnreg_inc<kConsumerRegisters>();
  uint32_t w_hi[kSteps][4], w_lo[kSteps][4];
  shifted_filters::load_weights<K>(outgoing + m_tile * kTaps, of_tile, filter_scale, w_hi, w_lo);
  named_barrier(kPipelinedConsumers, kConsumerThreads);  // waits until all threads have read the weights in `outgoing`
  const float unscale = 1.0f / kImageScale / filter_scale;
  const int lane = threadIdx.x % 32, g = lane / 4, t = lane % 4, columns = d.OH * cut.per_row;
  const bool mine = g / 2 < of_warp;
  // Lanes of neighbouring filters store their two columns in opposite order, which avoids bank conflicts.
  const bool odd = g / 2 % 2;
  const int second = odd ? -4 * kShift : 4 * kShift;
  const int lane_at = g / 2 * tiling.stride + (2 * t + odd) * kShift + g % 2 * 2;
  // The buffer for outputs: per warp [slot][filter of the warp][output of a chunk].
  float* const slots = outgoing + m_warp * tiling.slots * tiling.stride;
  int slot = 0;
  float high[kColumns / 2], low[kColumns / 2];
  for (PipelineState at;; at.next(kImages)) {
    barrier_wait(&shared.full[at.stage], at.phase);
    // Only lane 0, which arrives at the mbarrier `empty`, reads what the producers overwrite then; so in racecheck's view
    // all reads come before.
    Work work = {};
    if (lane == 0) work = shared.work[at.stage];
    work = {__shfl_sync(0xffffffffu, work.image, 0), __any_sync(0xffffffffu, work.exact) != 0,
            __shfl_sync(0xffffffffu, work.rescale, 0)};
    if (work.image == kNone) break;
    float* const out = y + (1LL * work.image * cut.filters + m0) * plane;
    if (!finite || work.rescale == 0.0f) {
      fallback_image_band(x + 1LL * work.image * (d.H * d.W), k + m_part * kTaps, out + m_part * plane, 1, d.H, d.W,
                          of_part, K, 0, d.OH, threadIdx.x % 256, 256);
    } else {
      // The lower 32 bits of a descriptor. They count 16 bytes, so the next unit is 1 more.
      const uint32_t corner = core_descriptor(shared_address(units + at.stage * 2 * unit_count), 0, 128);
      for (int first = 0; first < columns; first += tiling.turns * kColumns) {
        const int some = min(tiling.turns * kColumns, columns - first);
        float* const gathered = slots + slot * of_warp * tiling.stride;
        uint32_t unit = corner + first, to = shared_address(gathered + lane_at);
        const uint32_t end = unit + some;
        bulk_wait_read_but(tiling.slots - 1);
        __syncwarp();
        const auto product = [&](float (&sum)[kColumns / 2], const uint32_t (&a)[4], int s, int halves, int keep) {
          const int two = 2 * s + 1 < K ? cut.per_row : 0;  // distance from the step's first unit to its second
          wgmma_rs<kColumns>(sum, a, unit + halves + 2 * s * cut.per_row + (two << 16), keep);
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
          do {  // the products of two low parts first, and a chain per step, as in shifted_filters.cu
            wgmma_fence();
#pragma unroll
            for (int s = 0; s < kSteps; ++s) product(high, w_lo[s], s, unit_count, s > 0);
            wgmma_commit();
            wgmma_wait(high);
#pragma unroll
            for (int e = 0; e < kColumns / 2; ++e) low[e] = high[e] * (1.0f / kLowScale);
            wgmma_fence();
#pragma unroll
            for (int s = 0; s < kSteps; ++s) {
              product(low, w_lo[s], s, 0, 1);
              product(low, w_hi[s], s, unit_count, 1);
              if (s == 0) product(high, w_hi[s], s, 0, 0);
            }
            wgmma_commit();
            wgmma_wait(high);
            wgmma_wait(low);
#pragma unroll
            for (int s = 1; s < kSteps; ++s) {
#pragma unroll
              for (int e = 0; e < kColumns / 2; ++e) low[e] += high[e] * kLowScale;
              wgmma_fence();
              product(high, w_hi[s], s, 0, 0);
              wgmma_commit();
              wgmma_wait(high);
            }
#pragma unroll
            for (int e = 0; e < kColumns / 2; ++e)
              high[e] = (high[e] + low[e] * (1.0f / kLowScale)) * unscale, low[e] = 0.0f;
            put(rescale);
          } while ((unit += kColumns) < end);
        }
        bulk_fence();
        __syncwarp();
        if (lane < of_warp)
          bulk_store(out + (m_warp + lane) * plane + first * kShift, gathered + lane * tiling.stride,
                     some * kShift * 4);
        bulk_commit();
        if (++slot == tiling.slots) slot = 0;
      }
    }
    __syncwarp();
    if (lane == 0) barrier_arrive(&shared.empty[at.stage]);
  }
  bulk_wait_read();  // the block must not end before the copies have read its shared memory
#endif
}

// Whether this kernel supports a layer and there are enough images. Layers with 12 or 16 filters and larger images, and
// layers that leave a fifth of the turns empty, are not faster with it.
bool takes(const fops_conv& c, const shifted_filters::Tiling& cut, unsigned blocks) {
  const int columns = cut.rows * cut.per_row, turns = static_cast<int>(ceil_div(columns, kColumns));
  return c.K == K && cut.two && cut.parts % kParts == 0 && cut.bands == 1 && 7 * turns * kColumns <= 8 * columns &&
         cut.vector_in && cut.vector_out && c.B >= 8LL * blocks;
}

}  // namespace

fops_status run_shifted_filters_pipelined(const fops_conv& c, const shifted_filters::Tiling& cut, const void* x,
                                          const float* k, float* y, cudaStream_t stream, bool* taken) {
  int sms = 0;
  FOPS_TRY(count_sms(&sms));
  const int pairs = cut.parts / kParts;
  const unsigned blocks = std::max(1, sms / std::max(1, pairs));
  if (!takes(c, cut, blocks)) return FOPS_OK;
  return with_input(c, x, [&](auto typed) {
    using In = std::remove_cv_t<std::remove_pointer_t<decltype(typed)>>;
    auto* kernel = tensor_core_shifted_filters_pipelined<In>;
    Dims d = dims(c);
    d.M = static_cast<int>(ceil_div(c.M, cut.parts));
    Tiling t = {};
    t.cut = cut, t.ahead = kMaxAhead;
    const int64_t of_block = std::min<int64_t>(kParts * d.M, c.M);
    const auto bytes = [&] {
      return 2 * kImages * sizeof(uint4) * cut.units(K) + t.ahead * cut.raw * sizeof(In) +
             sizeof(float) * of_block * t.slots * t.stride;
    };
    // One turn per chunk: a filter's outputs of a turn are 768 bytes, and larger copies are slower.
    t.turns = 1, t.stride = kColumns * kShift;
    for (t.slots = 4; !shared_fits(bytes() + sizeof(Shared));) {
      if (t.ahead > 4)
        --t.ahead;
      else if (t.slots > 2)
        --t.slots;
      else if (t.ahead > 2)
        --t.ahead;
      else
        return FOPS_OK;
    }
    FOPS_TRY(allow_shared(kernel, bytes()));
    *taken = true;
    const Phases phases = phases_for(c.B, 1LL * d.H * d.W * sizeof(In), 1, blocks);
    TileCounter tile_counter(stream);
    FOPS_TRY(tile_counter.reserve(c.B, blocks, pairs));
    kernel<<<blocks * pairs, kThreads, bytes(), stream>>>(d, t, phases, typed, k, y, tile_counter.counters());
    return launched("tensor-core");
  });
}

}  // namespace fops
