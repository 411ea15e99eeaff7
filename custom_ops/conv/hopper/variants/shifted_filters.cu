// One channel, 9 filters or more, on Hopper: the rows of a wgmma are filters at several shifts.
//
//   rows of A, K = 5:         output 4n       k0 k1 k2 k3 k4  0  0  0       column n of B: eight pixels of a row,
//                             output 4n + 1    0 k0 k1 k2 k3 k4  0  0                      from pixel 4n on
//                             output 4n + 2    0  0 k0 k1 k2 k3 k4  0
//                             output 4n + 3    0  0  0 k0 k1 k2 k3 k4
//
// Eight pixels of a row serve 9 - K neighbouring outputs. So a filter takes 9 - K rows of a wgmma, and 16 filters fill
// its 64 rows (32 filters with K = 7).
// Costs: 3 of 8 products are with zeros (with K = 7, 1 of 8).
// Gains: pixels are read once for all outputs of a column, by the tensor cores from shared memory.
#include "conv/hopper/variants/shifted_filters.cuh"

#include "conv/hopper/fallback.cuh"
#include "conv/hopper/pipeline.cuh"
#include "conv/hopper/scheduler.cuh"
#include "conv/hopper/variants.h"
#include "gpu/band_scale.cuh"

namespace fops {
namespace {

using namespace shifted_filters;

// The lane map. One wgmma: D (64 x kColumns) += A (64 x 16) x B (16 x kColumns), A in registers, B in shared memory.
//
//   A: rows of warp w     K = 5: filters 4w to 4w + 3; row g is filter 4w + g / 2 at shift g % 2 * 2, row g + 8 the same
//                         filter at the next shift. K = 7: filters 8w to 8w + 7; row g is filter 8w + g at shift 0, row
//                         g + 8 the same filter at shift 1.
//   B: unit p of column n   the eight pixels from (row + p, shifts(K) n) on, as they were staged: 16 bytes
//   D: lane 4g + t        rows g and g + 8 of columns 8j + 2t and 8j + 2t + 1
//
// So a lane has two neighbouring outputs of each of two columns. With K = 7 these are four outputs in a row. With K =
// 5, lanes with even g and odd g exchange outputs: the even lane then has all four outputs of the first column, the odd
// lane those of the second.

// Returns the number of warpgroups per block. An SM has four: with six, the weights would hardly fit into registers,
// and stores would hinder one another. With K = 5 the two warpgroups of a block share the staging.
constexpr int groups(int K) { return K == 5 ? 2 : 1; }
constexpr int kBlockGroups = 4;  // warpgroups per SM

// tile_counter[part] counts the tasks that blocks have taken. Without counters, blocks have equal numbers of tasks.
template <int K, int kColumns, bool kHalf, typename X>
__global__ void __launch_bounds__(bound_with_wgmma(128 * groups(K)), kBlockGroups / groups(K))
    tensor_core_shifted_filters(const __grid_constant__ Dims whole, const __grid_constant__ Tiling tiling,
                                const X* __restrict__ x, const float* __restrict__ k, float* __restrict__ y,
                                unsigned* tile_counter) {
#if FOPS_SM_90A
  constexpr int kGroups = groups(K), kThreads = 128 * kGroups, kTaps = K * K, kSteps = steps(K);
  constexpr int kShift = shifted_filters::shifts(K);
  extern __shared__ __align__(128) uint4 dynamic[];
  __shared__ unsigned scratch;
  __shared__ uint64_t arrived[kAhead];
  __shared__ unsigned queue[kAhead];  // tasks whose pixels are in `waiting`
  const int part = static_cast<int>(blockIdx.x % tiling.parts);
  Dims d = whole;
  const int m0 = part * d.M, plane = d.OH * d.OW;
  d.M = min(d.M, tiling.filters - m0);
  k += m0 * kTaps;
  const int lane = threadIdx.x % 32, g = lane / 4, t = lane % 4;
  // The shuffle shows the compiler that this is warp-uniform.
  const int warp = __shfl_sync(0xffffffffu, threadIdx.x / 32, 0), group = warp / 4, unit_count = tiling.units(K);
  uint4* units = dynamic;  // [buffer, of two][high, low][row][column]
  X* waiting = reinterpret_cast<X*>(units + tiling.front);

  struct BandPiece {
    long long image;
    int h0, rows, piece;
  };
  const auto piece_of = [&](unsigned task) {
    const unsigned band = tiling.by_slices.divide(task), image = tiling.by_bands.divide(band);
    const int h0 = static_cast<int>(band - image * tiling.bands) * tiling.rows;
    return BandPiece{image, h0, min(tiling.rows, d.OH - h0), static_cast<int>(task - band * tiling.slices)};
  };
  const auto source_of = [&](const BandPiece& at) { return x + at.image * (d.H * d.W) + at.h0 * d.W; };
  const auto count_of = [&](const BandPiece& at) { return (at.rows + K - 1) * d.W; };
  // Blocks take the next task from a counter, because SMs differ by a tenth in the speed of their writes, and y is
  // written fastest from its beginning to its end. TMA loads whole bands.
  const unsigned block = blockIdx.x / tiling.parts, stride = gridDim.x / tiling.parts;
  unsigned claimed = block;
  const auto load_next = [&](unsigned slot) {  // called by thread 0: loads the task that it claimed, and claims another
    const unsigned task = claimed;
    queue[slot] = task;
    if (tiling.vector_in && task < tiling.tasks) {
      const BandPiece at = piece_of(task);
      const uint32_t bytes = count_of(at) * sizeof(X);
      barrier_expect(&arrived[slot], bytes);
      bulk_load(waiting + slot * tiling.raw, source_of(at), bytes, &arrived[slot]);
    }
    if (!tile_counter || task < (kAhead - 1) * stride) {
      claimed += stride;
    } else {
      claimed = kAhead * stride + atomicAdd(tile_counter + part, 1u);
    }
  };
  if (threadIdx.x < kAhead) barrier_init(&arrived[threadIdx.x], 1);
  if (threadIdx.x == 0) barrier_init_end();
  __syncthreads();
  for (unsigned i = 0; threadIdx.x == 0 && i < kAhead; ++i) load_next(i);

  // All weights have the same scale. They are read several times, so they are copied to the buffer for units first.
  float* weights = reinterpret_cast<float*>(dynamic);
  float largest = 0.0f;
  uint32_t smallest = ~0u;
#pragma unroll 4
  for (int i = threadIdx.x; i < d.M * kTaps; i += kThreads) {
    const float v = __ldg(k + i);
    weights[i] = v;
    largest = larger(largest, v), smallest = min(smallest, nonzero_bits(v));
  }
  largest = block_max(largest, &scratch);
  const float filter_scale = scale_for(largest), unscale = 1.0f / kImageScale / filter_scale;
  const float minimum = kHalf ? 0.0f : min_scaled(kTaps);
  const bool good = largest < kLargestScaled && (kHalf || smallest >= nonzero_bits(minimum / filter_scale));
  const int first_filter = tiling.two && group ? tiling.split : 0;
  const int filters = (tiling.two && !group ? min(tiling.split, d.M) : d.M) - first_filter;  // of this warpgroup
  uint32_t w_hi[kSteps][4], w_lo[kSteps][4];
  load_weights<K>(weights + first_filter * kTaps, filters, filter_scale, w_hi, w_lo);
  const bool finite = __syncthreads_and(good);

  const Row<K> row(warp % 4, g);
  const int lane_column = 2 * t + (kShift == 4 ? g % 2 : 0);  // column whose four outputs this lane stores
  float both[kColumns / 2], small[kColumns / 2];
  for (unsigned i = 0;; ++i) {
    const unsigned task = queue[i % kAhead];
    if (task >= tiling.tasks) break;
    const BandPiece at = piece_of(task);
    const int count = count_of(at), pixels = at.rows * d.OW;
    const X* source = source_of(at);
    float* out = y + (at.image * tiling.filters + m0) * plane + at.h0 * d.OW;
    uint4* hi = units + i % 2 * 2 * unit_count;
    X* here = waiting + i % kAhead * tiling.raw;

    if (tiling.vector_in) {
      barrier_wait(&arrived[i % kAhead], i / kAhead % 2);
    } else {
      fetch<kThreads>(source, count, here);
      __syncthreads();
    }
    bool exact = stage<K, false, kThreads>(tiling, d.W, here, count, kImageScale, hi, hi + unit_count);
    bulk_fence();
    exact = !__syncthreads_or(!exact);  // for exact pixels, such as an image's, this check is the only additional cost
    float rescale = 1.0f;
    if (!exact || !finite) {
      const float scale = finite ? band_scale<kThreads>(here, count, minimum, &scratch) : 0.0f;
      if (scale == 0.0f) {
        if (at.piece == 0)
          fallback_image_band(source - at.h0 * d.W, k, out - at.h0 * d.OW, 1, d.H, d.W, d.M, K, at.h0, at.rows);
        __syncthreads();
        if (threadIdx.x == 0) load_next(i % kAhead);
        __syncthreads();
        continue;
      }
      stage<K, !kHalf, kThreads>(tiling, d.W, here, count, scale, hi, hi + unit_count);
      rescale = kImageScale / scale;
      bulk_fence();
      __syncthreads();
    }
    if (threadIdx.x == 0) load_next(i % kAhead);

    const int step = kColumns * (tiling.two ? 1 : kGroups);
    int first = at.piece * tiling.turns * step + (tiling.two ? 0 : group * kColumns);
    // The lower 32 bits of a descriptor. They count 16 bytes, so the next unit is 1 more.
    const uint32_t corner = core_descriptor(shared_address(hi), 0, 128);
    const auto product = [&](float (&sum)[kColumns / 2], const uint32_t (&a)[4], int s, int low, int keep) {
      const int two = 2 * s + 1 < K ? tiling.per_row : 0;  // distance from the step's first unit to its second
      wgmma_rs<kColumns>(sum, a, corner + low + first + 2 * s * tiling.per_row + (two << 16), keep);
    };
    float* lane_out = out + (first_filter + row.filter) * plane;
    const int limit = row.filter < filters ? pixels : 0;
    const auto put = [&](float by) {
      float* to = lane_out + (first + lane_column) * kShift;
      const int left = limit - (first + lane_column) * kShift;
#pragma unroll
      for (int j = 0; j < kColumns / 8; ++j) {
        float v[4];
#pragma unroll
        for (int e = 0; e < 4; ++e) {
          v[e] = (kHalf ? both[4 * j + e] : both[4 * j + e] + small[4 * j + e] * (1.0f / kLowScale)) * unscale;
          if (by != 1.0f) v[e] *= by;
        }
        float4 four = make_float4(v[0], v[2], v[1], v[3]);
        if constexpr (kShift == 4) {
          const bool odd = g % 2;
          const float a = __shfl_xor_sync(0xffffffffu, odd ? v[0] : v[1], 4);
          const float b = __shfl_xor_sync(0xffffffffu, odd ? v[2] : v[3], 4);
          four = odd ? make_float4(a, b, v[1], v[3]) : make_float4(v[0], v[2], a, b);
        }
        if (8 * j * kShift >= left) continue;
        float* target = to + 8 * j * kShift;
        if (tiling.vector_out) {
          __stcs(reinterpret_cast<float4*>(target), four);  // evict first: see pixel_columns.cuh
        } else {
          target[0] = four.x, target[1] = four.y, target[2] = four.z, target[3] = four.w;
        }
      }
    };
    const int turns = min(tiling.turns, (at.rows * tiling.per_row + step - 1) / step - at.piece * tiling.turns);
    if (turns <= 0) continue;  // the last band may have fewer rows, and then fewer pieces
    int turn = 0;
    if (exact || kHalf) {
      do {
        wgmma_fence();
#pragma unroll
        for (int s = 0; s < kSteps; ++s) {
          product(both, w_hi[s], s, 0, s > 0);
          if (!kHalf) product(small, w_lo[s], s, 0, s > 0);
        }
        wgmma_commit();
        wgmma_wait(both);
        if (!kHalf) wgmma_wait(small);
        put(kHalf ? rescale : 1.0f);
        first += step;
      } while (++turn < turns);
    } else {
      // The products of two high parts form chains of kChain steps. A chain of n steps with terms of one sign loses up
      // to n + 1 units of 2^-24, and omitting the products of two low parts loses up to 4 units. For K = 5 the bound
      // allows 9 units (docs/precision.md), so these products are computed there: first, in `both`.
      constexpr int kChain = K == 5 ? 1 : 2;
      constexpr bool kLows = K == 5;
      do {
        if constexpr (kLows) {
          wgmma_fence();
#pragma unroll
          for (int s = 0; s < kSteps; ++s) product(both, w_lo[s], s, unit_count, s > 0);
          wgmma_commit();
          wgmma_wait(both);
#pragma unroll
          for (int e = 0; e < kColumns / 2; ++e) small[e] = both[e] * (1.0f / kLowScale);
        }
        wgmma_fence();
#pragma unroll
        for (int s = 0; s < kSteps; ++s) {
          product(small, w_lo[s], s, 0, kLows || s > 0);
          product(small, w_hi[s], s, unit_count, 1);
          if (s < kChain) product(both, w_hi[s], s, 0, s > 0);
        }
        wgmma_commit();
        wgmma_wait(both);
        wgmma_wait(small);
#pragma unroll
        for (int begin = kChain; begin < kSteps; begin += kChain) {
#pragma unroll
          for (int e = 0; e < kColumns / 2; ++e) small[e] += both[e] * kLowScale;
          wgmma_fence();
#pragma unroll
          for (int s = begin; s < begin + kChain; ++s) product(both, w_hi[s], s, 0, s > begin);
          wgmma_commit();
          wgmma_wait(both);
        }
        put(rescale);
        first += step;
      } while (++turn < turns);
    }
  }
#endif
}

size_t shared_bytes(const Tiling& t, size_t pixel) {
  constexpr size_t kPast = 16 * 2 * 64;  // a turn that ends past the last column may read up to here
  return 16 * static_cast<size_t>(t.front) + std::max(kPast, kAhead * pixel * t.raw);
}

// Target for the columns of a band. (Bands have at least 3 K rows, because lower bands stage many pixels twice.)
constexpr int64_t kBandColumns = 256;

// Sets *tiling; returns false if no band fits into shared memory. The bands do not depend on the batch size, because
// their scales, and with them the results, would then depend on it.
bool tiling_for(const fops_conv& c, Tiling* tiling) {
  const int K = static_cast<int>(c.K);
  Tiling& t = *tiling;
  const int64_t OH = out_h(c), OW = out_w(c);
  t.filters = static_cast<int>(c.M), t.parts = static_cast<int>(ceil_div(c.M, tile_filters(K) * groups(K)));
  const int64_t part = ceil_div(c.M, t.parts);
  t.two = part > tile_filters(K), t.split = static_cast<int>(t.two ? ceil_div(part, 2) : part);
  t.per_row = static_cast<int>(OW / shifted_filters::shifts(K));
  t.runs = static_cast<int>(std::max<int64_t>(2, ceil_div(t.per_row, shifted_filters::run(K))));  // 2: see `divide`
  t.inverse_runs = inverse_of(static_cast<uint32_t>(t.runs));
  const int64_t maximum = std::max<int64_t>(3 * K, kBandColumns / t.per_row);
  const size_t room = 228 * 1024 * groups(K) / kBlockGroups - 1024 - 256;  // 1 KB per block is reserved; 256 are static
  for (int64_t bands = std::max<int64_t>(1, (OH + maximum / 2) / maximum); bands <= OH; ++bands) {
    const int64_t rows = ceil_div(OH, bands);
    t.rows = static_cast<int>(std::min(OH, rows + rows % 2));  // even, so that more bands begin where TMA can begin
    t.bands = static_cast<int>(ceil_div(OH, t.rows));
    t.raw = static_cast<int>(ceil_div((t.rows + K - 1) * c.W, 16) * 16);
    t.front = static_cast<int>(std::max<int64_t>(4 * t.units(K), ceil_div(part * K * K, 4)));
    if (t.units(K) < 1 << 14 && shared_bytes(t, 4) <= room) return true;
  }
  return false;
}

template <int K, int kColumns, bool kHalf>
fops_status run(const fops_conv& c, Tiling t, const void* x, const float* k, float* y, cudaStream_t stream) {
  Dims d = dims(c);
  d.M = static_cast<int>(ceil_div(c.M, t.parts));
  return with_input(c, x, [&](auto typed) {
    using In = std::remove_cv_t<std::remove_pointer_t<decltype(typed)>>;
    const int64_t row = d.W * sizeof(In);
    t.vector_out = reinterpret_cast<uintptr_t>(y) % 16 == 0;
    t.vector_in = d.H * row % 16 == 0 && (t.bands == 1 || (t.rows * row % 16 == 0 && (K - 1) * row % 16 == 0)) &&
                  reinterpret_cast<uintptr_t>(x) % 16 == 0;
    if (K == 5 && !kHalf) {
      bool taken = false;
      FOPS_TRY(run_shifted_filters_pipelined(c, t, x, k, y, stream, &taken));
      if (taken) return FOPS_OK;
    }
    auto* kernel = tensor_core_shifted_filters<K, kColumns, kHalf, In>;
    const size_t shared = shared_bytes(t, sizeof(In));
    unsigned grid = 0;
    constexpr int kThreads = 128 * groups(K);
    FOPS_TRY(resident_grid(kernel, kThreads, shared, INT_MAX, &grid));
    // In small batches bands are cut into pieces. The block that computes a piece stages its whole band.
    const int64_t bands = d.B * t.bands, room = grid / (bands * t.parts);
    const int64_t turns = ceil_div(t.rows * t.per_row, kColumns * (t.two ? 1 : groups(K)));
    t.turns = static_cast<int>(ceil_div(turns, std::max<int64_t>(1, std::min(turns, room))));
    t.slices = static_cast<int>(ceil_div(turns, t.turns));
    t.by_bands = Divisor(t.bands), t.by_slices = Divisor(t.slices);
    t.tasks = static_cast<unsigned>(bands * t.slices);
    const unsigned resident = std::min(t.tasks, std::max(1u, grid / t.parts));
    TileCounter tile_counter(stream);
    FOPS_TRY(tile_counter.reserve(t.tasks, resident, t.parts));
    kernel<<<resident * t.parts, kThreads, shared, stream>>>(d, t, typed, k, y, tile_counter.counters());
    return launched("tensor-core");
  });
}

bool usable() { return has_code_here(tensor_core_shifted_filters<5, 48, false, float>, 128 * groups(5)); }

}  // namespace

// Outputs are stored from registers, so only planes of whole 32-byte sectors are supported; for others pixel_columns.cu
// is faster. Few filters with few outputs are not supported, because most of a turn would be empty.
bool takes_shifted_filters(const fops_conv& c) {
  Tiling t = {};
  return takes_any(c) && c.C == 1 && (c.K == 5 || c.K == 7) && c.M > 8 && c.M <= 512 &&
         out_w(c) % shifted_filters::shifts(static_cast<int>(c.K)) == 0 && out_h(c) * out_w(c) % 8 == 0 &&
         (c.M > 16 || out_h(c) * out_w(c) >= 128) && c.H <= 1 << 15 && c.W <= 1024 &&
         saturating(1.0 * c.M * out_h(c) * out_w(c)) <= INT_MAX && saturating(1.0 * c.B * c.H * out_w(c)) <= INT_MAX &&
         tiling_for(c, &t) && usable();
}

namespace {

template <bool kHalf>
fops_status run_any(const fops_conv& c, const void* x, const float* k, float* y, cudaStream_t stream) {
  Tiling t = {};
  if (!tiling_for(c, &t)) return fail(FOPS_UNSUPPORTED, "tensor-core: this shape does not fit into shared memory");
  if (c.K == 7) return run<7, 48, kHalf>(c, t, x, k, y, stream);
  // Chooses the number of columns per turn for which fewer columns past a band's last one are computed.
  const int64_t columns = t.rows * t.per_row, a = t.two ? 64 : 128, b = a / 4 * 3;
  return ceil_div(columns, a) * a <= ceil_div(columns, b) * b ? run<5, 64, kHalf>(c, t, x, k, y, stream)
                                                              : run<5, 48, kHalf>(c, t, x, k, y, stream);
}

}  // namespace

fops_status run_shifted_filters(const fops_conv& c, bool half, const void* x, const float* k, float* y,
                                cudaStream_t stream) {
  return half ? run_any<true>(c, x, k, y, stream) : run_any<false>(c, x, k, y, stream);
}

}  // namespace fops
