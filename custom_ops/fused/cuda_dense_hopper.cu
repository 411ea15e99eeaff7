// The dense layer with wgmma: Hopper.
#include <cuda.h>

#include "cuda_dense_kernels.h"
#include "cuda_dense_wgmma.cuh"

namespace fops {
namespace {

constexpr int kUnits = 128, kDepth = 64;
constexpr int kMultipliers = 256;           // two groups of four warps, 64 units each
constexpr int kThreads = kMultipliers + 128;  // and one that starts the copies and lends the others its registers
constexpr int kStepsAChunk = kChunk / kDepth;
constexpr int kCluster = 2;
#ifndef FOPS_ORDERED
#define FOPS_ORDERED 0
#endif

__host__ __device__ constexpr int step_bytes(int rows, int products) {
  return (kUnits + rows) * kDepth * 2 * (products == 3 ? 2 : 1);
}
constexpr int kMostShared = 227 * 1024;
__host__ __device__ constexpr int stages(int rows, int products) {
  return (kMostShared - 2048) / step_bytes(rows, products);
}
// The tiles begin on a 1,024-byte boundary, which dynamic shared memory need not.
constexpr size_t shared_bytes(int rows, int products) {
  return 1024 + static_cast<size_t>(stages(rows, products)) * step_bytes(rows, products);
}

struct Maps {
  CUtensorMap w[2], x[2];  // [0] hi, [1] lo
};

struct Tasks {
  long long n, units;
  int steps, part_steps, parts;  // of kDepth inputs
  int row_tiles, unit_pairs;     // a cluster makes one row tile of two unit tiles
  long long count;
};

struct Task {
  int row0, unit0, begin, end;
  __device__ Task(const Tasks& tasks, long long id, uint32_t rank, int rows) {
    row0 = static_cast<int>(id / tasks.unit_pairs % tasks.row_tiles) * rows;
    unit0 = (static_cast<int>(id % tasks.unit_pairs) * kCluster + static_cast<int>(rank)) * kUnits;
    begin = static_cast<int>(id / tasks.unit_pairs / tasks.row_tiles) * tasks.part_steps;
    end = min(tasks.steps, begin + tasks.part_steps);
  }
};

// A block of code without wgmma is empty; its bound on threads then says so to dense_hopper_usable.
#if defined(__CUDA_ARCH__) && !FOPS_WGMMA
constexpr int kBound = 32;
#else
constexpr int kBound = kThreads;
#endif

__device__ inline void order_wait(int group) {
  asm volatile("bar.sync %0, %1;" ::"r"(1 + group), "n"(kMultipliers) : "memory");
}
__device__ inline void order_pass(int group) {
  asm volatile("bar.arrive %0, %1;" ::"r"(1 + group), "n"(kMultipliers) : "memory");
}

template <int kRows, int kProducts, bool kSplit>
__global__ void __launch_bounds__(kBound, 1)
    dense_wgmma(const __grid_constant__ Maps maps, Tasks tasks, DenseEpilogue epilogue, float* to) {
#if FOPS_WGMMA
  constexpr int kStages = stages(kRows, kProducts), kParts = kProducts == 3 ? 2 : 1;
  constexpr int kBytes = step_bytes(kRows, kProducts), kWBytes = kUnits * kDepth * 2, kXBytes = kRows * kDepth * 2;
  extern __shared__ uint8_t unaligned[];
  __shared__ uint64_t full[kStages], empty[kStages];
  uint8_t* tiles = unaligned + (1024 - shared_address(unaligned) % 1024) % 1024;
  const uint32_t rank = cluster_rank();
  const int warp = threadIdx.x / 32;

  if (threadIdx.x == 0) {
    for (int i = 0; i < kStages; ++i) {
      barrier_init(&full[i], 1);
      barrier_init(&empty[i], kCluster * 2);  // both blocks' groups: what is copied here lands in both
    }
    barrier_init_end();
  }
  cluster_sync();

  int stage = 0;
  uint32_t phase = 0;
  const auto next_stage = [&] {
    if (++stage == kStages) stage = 0, phase ^= 1;
  };
  if (warp >= kMultipliers / 32) {
    registers_down<40>();
    for (long long id = blockIdx.x / kCluster; threadIdx.x == kMultipliers && id < tasks.count;
         id += gridDim.x / kCluster) {
      const Task task(tasks, id, rank, kRows);
      for (int step = task.begin; step < task.end; ++step) {
        barrier_wait(&empty[stage], phase ^ 1);
        barrier_expect(&full[stage], kBytes);
        uint8_t* at = tiles + stage * kBytes;
#pragma unroll
        for (int p = 0; p < kParts; ++p)
          copy_tile(at + p * kWBytes, &maps.w[p], step * kDepth, task.unit0, &full[stage]);
        if (rank < kParts)  // block 0 copies the high halves of x for both blocks, block 1 the low ones
          copy_tile_to_both(at + kParts * kWBytes + rank * kXBytes, &maps.x[rank], step * kDepth, task.row0,
                            &full[stage]);
        next_stage();
      }
    }
  } else {
    registers_up<232>();
    const int group = warp / 4;
    if (FOPS_ORDERED && !kSplit && group == 1) order_pass(0);
  for (long long id = blockIdx.x / kCluster; id < tasks.count; id += gridDim.x / kCluster) {
    const Task task(tasks, id, rank, kRows);
    const int row0 = task.row0, unit0 = task.unit0, begin = task.begin, end = task.end;
    float total[kRows / 2], sums[kRows / 2];
    if (!kSplit) {
#pragma unroll
      for (int i = 0; i < kRows / 2; ++i) total[i] = 0.0f;
    }
    const int lane = threadIdx.x % 32;
    const long long unit = unit0 + group * 64 + warp % 4 * 16 + lane / 4;
    const auto store = [&](const float(&values)[kRows / 2], float* out, bool finish) {
#pragma unroll
      for (int j = 0; j < kRows / 8; ++j)
#pragma unroll
        for (int e = 0; e < 4; ++e) {
          const long long row = row0 + 8 * j + lane % 4 * 2 + e % 2, u = unit + e / 2 * 8;
          if (row < tasks.n && u < tasks.units)
            out[row * tasks.units + u] = finish ? epilogue(values[4 * j + e], u) : values[4 * j + e];
        }
    };
    for (int step = begin; step < end; ++step) {
      barrier_wait(&full[stage], phase);
      const uint8_t* at = tiles + stage * kBytes;
      const uint64_t w = tile_descriptor(at + group * 64 * kDepth * 2);
      const uint64_t x = tile_descriptor(at + kParts * kWBytes);
      const bool fresh = step % kStepsAChunk == 0, last = (step + 1) % kStepsAChunk == 0 || step + 1 == end;
      if (FOPS_ORDERED && !kSplit) order_wait(group);
      wgmma_begin();
      if (kProducts == 3) {
#pragma unroll
        for (int k = 0; k < kDepth / 16; ++k) {
          wgmma<kRows>(sums, w + (kWBytes >> 4) + 2 * k, x + 2 * k, k > 0 || !fresh);
          wgmma<kRows>(sums, w + 2 * k, x + (kXBytes >> 4) + 2 * k, 1);
        }
      }
#pragma unroll
      for (int k = 0; k < kDepth / 16; ++k)
        wgmma<kRows>(sums, w + 2 * k, x + 2 * k, kProducts == 3 || k > 0 || !fresh);
      wgmma_commit();
      if (FOPS_ORDERED && !kSplit) order_pass(group ^ 1);
      wgmma_wait(sums);
      if (threadIdx.x % 128 < kCluster) barrier_arrive(&empty[stage], threadIdx.x % 128);
      if (last) {
        if (kSplit) {
          store(sums, to + step / kStepsAChunk * tasks.n * tasks.units, false);
        } else {
#pragma unroll
          for (int i = 0; i < kRows / 2; ++i) total[i] += sums[i];
        }
      }
      next_stage();
    }
    if (!kSplit) store(total, to, true);
  }
  }
  cluster_sync();  // the other block's copies and arrivals still come here
#endif
}

using Encode = CUresult (*)(CUtensorMap*, CUtensorMapDataType, cuuint32_t, void*, const cuuint64_t*, const cuuint64_t*,
                            const cuuint32_t*, const cuuint32_t*, CUtensorMapInterleave, CUtensorMapSwizzle,
                            CUtensorMapL2promotion, CUtensorMapFloatOOBfill);

// The driver's function by way of the runtime, so that the library loads where there is no driver.
fops_status find_encode(Encode* out) {
  void* function = nullptr;
  cudaDriverEntryPointQueryResult found = cudaDriverEntryPointSymbolNotFound;
#if CUDART_VERSION >= 12050
  FOPS_CUDA(cudaGetDriverEntryPointByVersion("cuTensorMapEncodeTiled", &function, 12000, cudaEnableDefault, &found));
#else
  FOPS_CUDA(cudaGetDriverEntryPoint("cuTensorMapEncodeTiled", &function, cudaEnableDefault, &found));
#endif
  *out = found == cudaDriverEntryPointSuccess ? reinterpret_cast<Encode>(function) : nullptr;
  return FOPS_OK;
}

// A matrix of halves, `rows` of `stride`, to be copied in boxes of `box` rows of kDepth; zeros outside.
fops_status map_matrix(Encode encode, const __half* matrix, int64_t rows, int64_t stride, int box, CUtensorMap* map) {
  const cuuint64_t sizes[] = {static_cast<cuuint64_t>(stride), static_cast<cuuint64_t>(rows)};
  const cuuint64_t strides[] = {static_cast<cuuint64_t>(stride) * 2};
  const cuuint32_t boxes[] = {kDepth, static_cast<cuuint32_t>(box)}, steps[] = {1, 1};
  const CUresult result =
      encode(map, CU_TENSOR_MAP_DATA_TYPE_FLOAT16, 2, const_cast<__half*>(matrix), sizes, strides, boxes, steps,
             CU_TENSOR_MAP_INTERLEAVE_NONE, CU_TENSOR_MAP_SWIZZLE_128B, CU_TENSOR_MAP_L2_PROMOTION_L2_256B,
             CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE);
  if (result != CUDA_SUCCESS)
    return fail(FOPS_DEVICE_ERROR, "CUDA error %d in cuTensorMapEncodeTiled of %lld x %lld halves",
                static_cast<int>(result), static_cast<long long>(rows), static_cast<long long>(stride));
  return FOPS_OK;
}

template <int kRows, int kProducts, bool kSplit>
fops_status run(const DenseCall& call) {
  Encode encode = nullptr;
  FOPS_TRY(find_encode(&encode));
  if (encode == nullptr) return fail(FOPS_UNSUPPORTED, "the driver has no cuTensorMapEncodeTiled");
  const DenseWeights& weights = call.weights;
  Maps maps;
  FOPS_TRY(map_matrix(encode, weights.hi, weights.units, call.stride(), kUnits, &maps.w[0]));
  FOPS_TRY(map_matrix(encode, weights.lo, weights.units, call.stride(), kUnits, &maps.w[1]));
  FOPS_TRY(map_matrix(encode, call.x_hi, call.n, call.stride(), kRows, &maps.x[0]));
  FOPS_TRY(map_matrix(encode, call.x_lo, call.n, call.stride(), kRows, &maps.x[1]));

  Tasks tasks;
  tasks.n = call.n;
  tasks.units = weights.units;
  tasks.steps = static_cast<int>(call.stride() / kDepth);
  tasks.part_steps = call.chunks_a_part() * kStepsAChunk;
  tasks.parts = call.parts;
  tasks.row_tiles = static_cast<int>(ceil_div(call.n, kRows));
  tasks.unit_pairs = static_cast<int>(ceil_div(weights.units, kCluster * kUnits));
  tasks.count = 1LL * tasks.parts * tasks.row_tiles * tasks.unit_pairs;

  auto* kernel = dense_wgmma<kRows, kProducts, kSplit>;
  constexpr size_t kShared = shared_bytes(kRows, kProducts);
  FOPS_TRY(allow_shared(kernel, kShared));
  int device = 0, multiprocessors = 0;
  FOPS_CUDA(cudaGetDevice(&device));
  FOPS_CUDA(cudaDeviceGetAttribute(&multiprocessors, cudaDevAttrMultiProcessorCount, device));
  cudaLaunchConfig_t config = {};
  config.gridDim = dim3(static_cast<unsigned>(
      std::min<long long>(tasks.count, std::max(1, multiprocessors / kCluster)) * kCluster));
  config.blockDim = dim3(kThreads);
  config.dynamicSmemBytes = kShared;
  config.stream = call.stream;
  cudaLaunchAttribute cluster = {};
  cluster.id = cudaLaunchAttributeClusterDimension;
  cluster.val.clusterDim.x = kCluster;
  cluster.val.clusterDim.y = cluster.val.clusterDim.z = 1;
  config.attrs = &cluster;
  config.numAttrs = 1;
  FOPS_CUDA(cudaLaunchKernelEx(&config, kernel, maps, tasks, epilogue(call),
                               call.partial != nullptr ? call.partial : call.y));
  return launched("dense layer on Hopper");
}

constexpr int kBigRows = 152, kSmallRows = 32;
int rows_a_tile(int64_t n) { return n <= kSmallRows ? kSmallRows : kBigRows; }

template <int kProducts>
fops_status run_split(const DenseCall& call) {
  if (call.partial == nullptr) return run<kBigRows, kProducts, false>(call);
  return rows_a_tile(call.n) == kSmallRows ? run<kSmallRows, kProducts, true>(call)
                                           : run<kBigRows, kProducts, true>(call);
}

}  // namespace

fops_status dense_hopper_usable(const DenseWeights& weights, bool* usable) {
  *usable = false;
  int device = 0, major = 0;
  FOPS_CUDA(cudaGetDevice(&device));
  FOPS_CUDA(cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, device));
  if (major != 9 || weights.units <= 64) return FOPS_OK;
  cudaFuncAttributes attributes = {};
  FOPS_CUDA(cudaFuncGetAttributes(&attributes, dense_wgmma<kBigRows, 3, false>));
  if (attributes.maxThreadsPerBlock < kThreads) return FOPS_OK;
  Encode encode = nullptr;
  FOPS_TRY(find_encode(&encode));
  *usable = encode != nullptr;
  return FOPS_OK;
}

int dense_parts_hopper(const DenseWeights& weights, int64_t n, int multiprocessors) {
  const int64_t tiles = ceil_div(n, rows_a_tile(n)) * ceil_div(weights.units, kCluster * kUnits);
  return static_cast<int>(std::max<int64_t>(1, multiprocessors / kCluster / tiles));
}

fops_status dense_hopper(const DenseCall& call) {
  return call.products == 3 ? run_split<3>(call) : run_split<1>(call);
}

}  // namespace fops
