// The dense layer with wgmma, on Hopper: D = A B^T in tiles of 128 rows of A ("tall") and up to 160 rows of B ("wide").
//
//               B, high | low                A step is 64 inputs of four tiles, the high and low parts of A and B, copied
//             +-----------------------+      to shared memory once for all three products. One producer thread starts the
//   A         | 4 warps x 16 rows     |      copies, several steps ahead. TMA swizzles as wgmma requires, and writes
//   high|low  +-----------------------+      zeros beyond the matrix. While one consumer warpgroup adds its accumulators
//             | 4 warps x 16 rows     |      to the total, the other keeps the matrix units busy.
//             +-----------------------+
// Costs: fa2017's layer has 72 GFLOP, and takes 222 (three products, padding).
// Gains: float32's accuracy at nearly the rate of half-precision products. docs/notebook.md lists what was tried.
#include <atomic>

#include "gpu/isa/bulk_copy.cuh"
#include "gpu/isa/wgmma.cuh"
#include "net/cuda/kernels/dense/kernels.h"

namespace fops {
namespace {

constexpr int kTall = 128,                    // rows of D per tile
    kDepth = 64;                              // inputs per step
constexpr int kMultipliers = 256;             // threads of two consumer warpgroups, each of which computes 64 rows of D
constexpr int kThreads = kMultipliers + 128;  // the producer warpgroup cedes registers to the consumers
constexpr int kStepsAChunk = kChunk / kDepth;

// Returns the bytes of one step's operands: kTall rows and `wide` rows of kDepth halves; with three products these are
// the high parts, and as many bytes are low parts.
__host__ __device__ constexpr int step_bytes(int wide, int products) {
  return (kTall + wide) * kDepth * 2 * (products == 3 ? 2 : 1);
}
constexpr int kMostShared = 226 * 1024;  // dynamic shared memory per block; 1 KB of 227 KB is left for static variables
__host__ __device__ constexpr int stages(int wide, int products) {
  return (kMostShared - 1024) / step_bytes(wide, products);
}
// Contains 1,024 bytes more than the tiles: they must begin on a 1,024-byte boundary, and dynamic shared memory may
// not.
constexpr size_t shared_bytes(int wide, int products) {
  return 1024 + static_cast<size_t>(stages(wide, products)) * step_bytes(wide, products);
}

struct Maps {
  CUtensorMap tall[2], wide[2];
};

struct Tasks {
  long long n, units;
  int steps, part_steps;  // steps of kDepth inputs: in all, and per part
  int tall_tiles, wide_tiles;
  long long count;  // number of tasks; a task is a tile of D and a part of the inputs
};

struct Task {
  int tall0, wide0, part, begin, end;
  __device__ Task(const Tasks& tasks, long long id, int wide) {
    tall0 = static_cast<int>(id % tasks.tall_tiles) * kTall;
    wide0 = static_cast<int>(id / tasks.tall_tiles % tasks.wide_tiles) * wide;
    part = static_cast<int>(id / tasks.tall_tiles / tasks.wide_tiles);
    begin = part * tasks.part_steps;
    end = min(tasks.steps, begin + tasks.part_steps);
  }
};

// If kUnitsTall, D's rows are units and its columns are rows of x; otherwise D's rows are rows of x and its columns are
// units. If kEveryChunk, each chunk's sums are stored separately; otherwise each part's sums. If `finish`, there is one
// part, and the epilogue is applied to its sums.
template <int kWide, int kProducts, bool kUnitsTall, bool kEveryChunk>
__global__ void __launch_bounds__(bound_with_wgmma(kThreads), 1)
    dense_wgmma(const __grid_constant__ Maps maps, Tasks tasks, DenseEpilogue epilogue, bool finish, float* to) {
#if FOPS_SM_90A
  constexpr int kStages = stages(kWide, kProducts), kParts = kProducts == 3 ? 2 : 1;
  constexpr int kTallBytes = kTall * kDepth * 2, kWideBytes = kWide * kDepth * 2;
  constexpr int kStepBytes = step_bytes(kWide, kProducts);
  static_assert(kStepBytes == kParts * (kTallBytes + kWideBytes), "");
  extern __shared__ uint8_t unaligned[];
  __shared__ uint64_t full[kStages], empty[kStages];
  uint8_t* tiles = unaligned + (1024 - shared_address(unaligned) % 1024) % 1024;

  if (threadIdx.x == 0) {
    for (int i = 0; i < kStages; ++i) {
      barrier_init(&full[i], 1);
      barrier_init(&empty[i], kMultipliers / 32);  // one arrival per consumer warp
    }
    barrier_init_end();
  }
  __syncthreads();

  int stage = 0;
  uint32_t phase = 0;
  const auto next_stage = [&] {
    if (++stage == kStages) stage = 0, phase ^= 1;
  };
  if (threadIdx.x >= kMultipliers) {
    setmaxnreg_dec<40>();
    if (threadIdx.x != kMultipliers) return;
    for (long long id = blockIdx.x; id < tasks.count; id += gridDim.x) {
      const Task task(tasks, id, kWide);
      for (int step = task.begin; step < task.end; ++step) {
        barrier_wait(&empty[stage], phase ^ 1);
        barrier_expect(&full[stage], kStepBytes);
        uint8_t* at = tiles + stage * kStepBytes;
#pragma unroll
        for (int p = 0; p < kParts; ++p) {
          copy_tile(at + p * kTallBytes, &maps.tall[p], step * kDepth, task.tall0, &full[stage]);
          copy_tile(at + kParts * kTallBytes + p * kWideBytes, &maps.wide[p], step * kDepth, task.wide0, &full[stage]);
        }
        next_stage();
      }
    }
  } else {
    setmaxnreg_inc<232>();
    const int group = threadIdx.x / 128, warp = threadIdx.x / 32 % 4, lane = threadIdx.x % 32;
    for (long long id = blockIdx.x; id < tasks.count; id += gridDim.x) {
      const Task task(tasks, id, kWide);
      // Stores a lane's sums in `out`; if `last`, applies the epilogue first. Value 4 j + e belongs to D's row
      // tall + e / 2 * 8 and column wide + 8 j + e % 2.
      const auto store = [&](const float (&values)[kWide / 2], float* out, bool last) {
        const int tall = task.tall0 + group * 64 + warp * 16 + lane / 4, wide = task.wide0 + lane % 4 * 2;
        // Whether two neighbouring columns are two units of a row of y that one aligned 8-byte store can write.
        const bool pairs = !kUnitsTall && tasks.units % 2 == 0 && reinterpret_cast<uintptr_t>(out) % 8 == 0;
        UnitEpilogue units[2];  // the two units to which a lane's values with the same j belong
        const auto units_at = [&](int j) {
          const int first = kUnitsTall ? tall : wide + 8 * j;
          units[0] = epilogue.of(first), units[1] = epilogue.of(first + (kUnitsTall ? 8 : 1));
        };
        if (kUnitsTall && last) units_at(0);
#pragma unroll
        for (int j = 0; j < kWide / 8; ++j) {
          if (!kUnitsTall && last) units_at(j);
#pragma unroll
          for (int e = 0; e < 4; ++e) {
            const long long t = tall + e / 2 * 8, w = wide + 8 * j + e % 2;
            const long long row = kUnitsTall ? w : t, unit = kUnitsTall ? t : w;
            if (row >= tasks.n || unit >= tasks.units) continue;
            float* at = out + row * tasks.units + unit;
            const float value = last ? units[kUnitsTall ? e / 2 : e % 2](values[4 * j + e]) : values[4 * j + e];
            if (!pairs) {
              *at = value;
            } else if (e % 2 == 0) {
              const float next = last ? units[1](values[4 * j + e + 1]) : values[4 * j + e + 1];
              *reinterpret_cast<float2*>(at) = make_float2(value, next);
            }
          }
        }
        if (!last || epilogue.doubts.bits == nullptr) return;
        // All branches that contain loops are taken by whole warps. Otherwise the compiler would not know that the loop
        // over steps is the same for all lanes, and would not keep its addresses in uniform registers, which is slower.
        uint32_t doubtful[(kWide / 2 + 31) / 32] = {}, any = 0;
#pragma unroll
        for (int i = 0; i < kWide / 2; ++i) {
          if (!kUnitsTall && i % 4 == 0) units_at(i / 4);
          if (units[kUnitsTall ? i % 4 / 2 : i % 2].doubtful(values[i])) doubtful[i / 32] |= 1u << i % 32, any = 1;
        }
        if (!__any_sync(0xffffffffu, any)) return;
#pragma unroll
        for (int i = 0; i < kWide / 2; i += 32)
#pragma unroll 1
          for (int at = i; at < min(i + 32, kWide / 2); ++at) {
            const long long t = tall + at % 4 / 2 * 8, w = wide + at / 4 * 8 + at % 2;
            const long long row = kUnitsTall ? w : t, unit = kUnitsTall ? t : w;
            if ((doubtful[i / 32] >> at % 32 & 1) && row < tasks.n && unit < tasks.units)
              epilogue.doubts.raise(row, unit);
          }
      };
      float total[kWide / 2], sums[kWide / 2];
#pragma unroll
      for (int i = 0; i < kWide / 2; ++i) total[i] = 0.0f;
      for (int step = task.begin; step < task.end; ++step) {
        barrier_wait(&full[stage], phase);
        const uint8_t* at = tiles + stage * kStepBytes;
        const uint64_t tall = tile_descriptor(at + group * 64 * kDepth * 2);
        const uint64_t wide = tile_descriptor(at + kParts * kTallBytes);
        const bool fresh = step % kStepsAChunk == 0;
        wgmma_fence();
        if (kProducts == 3) {
#pragma unroll
          for (int k = 0; k < kDepth / 16; ++k) {
            wgmma<kWide>(sums, tall + (kTallBytes >> 4) + 2 * k, wide + 2 * k, k > 0 || !fresh);
            wgmma<kWide>(sums, tall + 2 * k, wide + (kWideBytes >> 4) + 2 * k, 1);
          }
        }
#pragma unroll
        for (int k = 0; k < kDepth / 16; ++k)
          wgmma<kWide>(sums, tall + 2 * k, wide + 2 * k, kProducts == 3 || k > 0 || !fresh);
        wgmma_commit();
        wgmma_wait(sums);
        if (lane == 0) barrier_arrive(&empty[stage]);
        if ((step + 1) % kStepsAChunk == 0 || step + 1 == task.end) {
          if (kEveryChunk) {
            store(sums, to + step / kStepsAChunk * tasks.n * tasks.units, false);
          } else {
#pragma unroll
            for (int i = 0; i < kWide / 2; ++i) total[i] += sums[i];
          }
        }
        next_stage();
      }
      if (!kEveryChunk) store(total, to + task.part * tasks.n * tasks.units, finish);
    }
  }
#endif
}

using Encode = CUresult (*)(CUtensorMap*, CUtensorMapDataType, cuuint32_t, void*, const cuuint64_t*, const cuuint64_t*,
                            const cuuint32_t*, const cuuint32_t*, CUtensorMapInterleave, CUtensorMapSwizzle,
                            CUtensorMapL2promotion, CUtensorMapFloatOOBfill);

// Gets the driver's function cuTensorMapEncodeTiled through the runtime, so that the library can be loaded on a machine
// without a driver. *out is null if the driver does not have the function.
fops_status find_encode(Encode* out) {
  static std::atomic<Encode> known{nullptr};
  if ((*out = known.load()) != nullptr) return FOPS_OK;
  void* function = nullptr;
  cudaDriverEntryPointQueryResult found = cudaDriverEntryPointSymbolNotFound;
#if CUDART_VERSION >= 12050
  FOPS_CUDA(cudaGetDriverEntryPointByVersion("cuTensorMapEncodeTiled", &function, 12000, cudaEnableDefault, &found));
#else
  FOPS_CUDA(cudaGetDriverEntryPoint("cuTensorMapEncodeTiled", &function, cudaEnableDefault, &found));
#endif
  *out = found == cudaDriverEntryPointSuccess ? reinterpret_cast<Encode>(function) : nullptr;
  known.store(*out);
  return FOPS_OK;
}

// Makes the TMA descriptor of a matrix of halves with `rows` rows of `stride` values, for copies of `box` rows by
// kDepth columns, with zeros outside the matrix.
fops_status map_matrix(Encode encode, const __half* matrix, int64_t rows, int64_t stride, int box, CUtensorMap* map) {
  const cuuint64_t sizes[] = {static_cast<cuuint64_t>(stride), static_cast<cuuint64_t>(rows)};
  const cuuint64_t strides[] = {static_cast<cuuint64_t>(stride) * 2};
  const cuuint32_t boxes[] = {kDepth, static_cast<cuuint32_t>(box)}, steps[] = {1, 1};
  const CUresult result = encode(map, CU_TENSOR_MAP_DATA_TYPE_FLOAT16, 2, const_cast<__half*>(matrix), sizes, strides,
                                 boxes, steps, CU_TENSOR_MAP_INTERLEAVE_NONE, CU_TENSOR_MAP_SWIZZLE_128B,
                                 CU_TENSOR_MAP_L2_PROMOTION_L2_256B, CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE);
  if (result != CUDA_SUCCESS)
    return fail(FOPS_DEVICE_ERROR, "CUDA error %d in cuTensorMapEncodeTiled of %lld x %lld halves",
                static_cast<int>(result), static_cast<long long>(rows), static_cast<long long>(stride));
  return FOPS_OK;
}

template <int kWide, int kProducts, bool kUnitsTall, bool kEveryChunk>
fops_status launch(const DenseCall& call) {
  Encode encode = nullptr;
  FOPS_TRY(find_encode(&encode));
  if (encode == nullptr) return fail(FOPS_UNSUPPORTED, "the driver has no cuTensorMapEncodeTiled");
  const DenseWeights& weights = call.weights;
  Maps maps;
  CUtensorMap(&w)[2] = kUnitsTall ? maps.tall : maps.wide;
  CUtensorMap(&x)[2] = kUnitsTall ? maps.wide : maps.tall;
  constexpr int kUnitBox = kUnitsTall ? kTall : kWide, kRowBox = kUnitsTall ? kWide : kTall;
  FOPS_TRY(map_matrix(encode, weights.hi, weights.units, call.stride(), kUnitBox, &w[0]));
  FOPS_TRY(map_matrix(encode, weights.lo, weights.units, call.stride(), kUnitBox, &w[1]));
  FOPS_TRY(map_matrix(encode, call.x_hi, call.n, call.stride(), kRowBox, &x[0]));
  FOPS_TRY(map_matrix(encode, call.x_lo, call.n, call.stride(), kRowBox, &x[1]));

  Tasks tasks;
  tasks.n = call.n;
  tasks.units = weights.units;
  tasks.steps = static_cast<int>(call.stride() / kDepth);
  tasks.part_steps = call.chunks_a_part() * kStepsAChunk;
  tasks.tall_tiles = static_cast<int>(ceil_div(kUnitsTall ? weights.units : call.n, kTall));
  tasks.wide_tiles = static_cast<int>(ceil_div(kUnitsTall ? call.n : weights.units, kWide));
  tasks.count = 1LL * call.parts * tasks.tall_tiles * tasks.wide_tiles;

  auto* kernel = dense_wgmma<kWide, kProducts, kUnitsTall, kEveryChunk>;
  constexpr size_t kShared = shared_bytes(kWide, kProducts);
  FOPS_TRY(allow_shared(kernel, kShared));
  int multiprocessors = 0;
  FOPS_TRY(count_sms(&multiprocessors));
  const unsigned grid = static_cast<unsigned>(std::min<long long>(tasks.count, multiprocessors));
  const bool finish = call.partial == nullptr;
  kernel<<<grid, kThreads, kShared, call.stream>>>(maps, tasks, epilogue(call), finish, finish ? call.y : call.partial);
  return launched("dense layer on Hopper");
}

// In layers of up to this number of units, rows of x are D's rows, because so few units would not fill tiles of 128
// rows.
constexpr int64_t kFewUnits = 160;
bool few(const DenseWeights& weights) { return weights.units <= kFewUnits; }

// Returns the number of rows of x per tile if units are D's rows: 32 or 80 if with this number all tiles run at the
// same time, otherwise 152.
int rows_a_tile(const DenseWeights& weights, int64_t n, int parts, int multiprocessors) {
  for (int rows : {32, 80})
    if (ceil_div(n, rows) * ceil_div(weights.units, kTall) * parts <= multiprocessors) return rows;
  return 152;
}

template <int kProducts, bool kEveryChunk>
fops_status run(const DenseCall& call) {
  if (few(call.weights))
    return call.weights.units <= 144 ? launch<144, kProducts, false, kEveryChunk>(call)
                                     : launch<160, kProducts, false, kEveryChunk>(call);
  switch (rows_a_tile(call.weights, call.n, call.parts, call.multiprocessors)) {
    case 32: return launch<32, kProducts, true, kEveryChunk>(call);
    case 80: return launch<80, kProducts, true, kEveryChunk>(call);
    default: return launch<152, kProducts, true, kEveryChunk>(call);
  }
}

}  // namespace

fops_status dense_hopper_usable(const DenseWeights& weights, bool* usable) {
  *usable = false;
  int major = 0;
  FOPS_TRY(device_attribute(cudaDevAttrComputeCapabilityMajor, &major));
  if (major != 9 || weights.units <= 64) return FOPS_OK;
  if (!has_code_here(dense_wgmma<152, 3, true, false>, kThreads)) return FOPS_OK;
  Encode encode = nullptr;
  FOPS_TRY(find_encode(&encode));
  *usable = encode != nullptr;
  return FOPS_OK;
}

// Five segments for few units: 10,000 rows are 79 tiles of 128 rows, and five times 79 blocks fill 132 SMs three times.
int dense_segments_hopper(const DenseWeights& weights) { return few(weights) ? 5 : 1; }

int dense_parts_hopper(const DenseWeights& weights, int64_t n, int multiprocessors) {
  const int64_t tiles = few(weights) ? ceil_div(n, kTall) : ceil_div(weights.units, kTall) * ceil_div(n, 152);
  return static_cast<int>(std::max<int64_t>(1, multiprocessors / tiles));
}

fops_status dense_hopper(const DenseCall& call) {
  if (call.every_chunk) return call.products == 3 ? run<3, true>(call) : run<1, true>(call);
  return call.products == 3 ? run<3, false>(call) : run<1, false>(call);
}

}  // namespace fops
