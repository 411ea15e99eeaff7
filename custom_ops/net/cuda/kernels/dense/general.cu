// The dense layer with mma.sync, for the matrix units of every GPU from sm_75 on.
//
//        64 units          A block of 8 warps computes 128 rows x 64 units; a warp computes 32 x 32, or 2 x 4 mma tiles.
//   +-------+-------+      A tile takes three products of halves. The two with a low part come first: then the
//   | warp0 | warp1 |      accumulator is small, and its truncation loses least.
//   +-------+-------+      While a step of 32 inputs is multiplied, the next step of x and w, high and low parts
//   |  ...  | warp7 |      (24 KB), is copied to shared memory.
//   +-------+-------+
// Costs: fa2017's layer (10,000 x 7200 -> 500) takes 216 GFLOP with three products. x (289 MB) is read once per 64
// units, 2.3 GB in all, mostly from L2.
// Gains: faster than PyTorch's float32, even on Hopper, where hopper.cu (wgmma) is faster still.
#include "gpu/isa/bulk_copy.cuh"
#include "gpu/isa/mma.cuh"
#include "net/cuda/kernels/dense/kernels.h"

namespace fops {
namespace {

constexpr int kRows = 128, kUnits = 64, kDepth = 32;
constexpr int kThreads = 256;
constexpr int kStepsAChunk = kChunk / kDepth;

struct Stage {
  __half x[2][kRows * kDepth], w[2][kUnits * kDepth];  // [0]: high parts, [1]: low parts
};
static_assert(2 * sizeof(Stage) <= 48 * 1024, "static shared memory");

// Returns the index in a stage's array of 16-byte group `group` of row `row`. Rows are 64 bytes; the swizzle spreads
// the eight rows of a matrix that ldmatrix reads over all banks.
__device__ int place(int row, int group) { return row * kDepth + (group ^ (row >> 1 & 3)) * 8; }

// Starts the copy of one matrix's part of a step: kHeight rows from `first` on, with zeros for rows from `last` on.
template <int kHeight>
__device__ void copy_step(__half* to, const __half* from, long long first, long long last, long long stride,
                          long long k) {
#pragma unroll
  for (int i = threadIdx.x; i < kHeight * 4; i += kThreads) {
    const int row = i / 4, group = i % 4;
    const bool inside = first + row < last;
    copy_async_16(to + place(row, group), from + (inside ? (first + row) * stride : 0) + k + group * 8, inside);
  }
}

template <int kProducts>
__global__ void __launch_bounds__(kThreads) dense_mma(DenseCall call, long long stride, DenseEpilogue epilogue) {
  __shared__ Stage stages[2];
  const long long n = call.n, units = call.weights.units;
  const long long row0 = blockIdx.x * 1LL * kRows, unit0 = blockIdx.y * 1LL * kUnits;
  const int all_steps = static_cast<int>(stride / kDepth);
  const int part_steps = static_cast<int>(ceil_div(ceil_div(stride, kChunk), call.parts)) * kStepsAChunk;
  const int begin = blockIdx.z * part_steps, end = min(all_steps, begin + part_steps);
  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
  const int warp_row = warp / 2 * 32, warp_unit = warp % 2 * 32;

  const auto copy = [&](int step) {
    Stage& stage = stages[step % 2];
    const long long k = step * 1LL * kDepth;
    copy_step<kRows>(stage.x[0], call.x_hi, row0, n, stride, k);
    copy_step<kUnits>(stage.w[0], call.weights.hi, unit0, units, stride, k);
    if (kProducts == 3) {
      copy_step<kRows>(stage.x[1], call.x_lo, row0, n, stride, k);
      copy_step<kUnits>(stage.w[1], call.weights.lo, unit0, units, stride, k);
    }
  };
  // Stores this lane's sums in `to`; if `finish`, applies the epilogue first. Accumulator e of tile (i, j) belongs to
  // row warp_row + 16 i + lane / 4 + 8 (e / 2) and unit warp_unit + 8 j + lane % 4 * 2 + e % 2.
  const auto store = [&](const float (&sums)[2][4][4], float* to, bool finish) {
    uint32_t doubtful = 0;  // one bit per output
    const auto row = [&](int i, int e) { return row0 + warp_row + 16 * i + lane / 4 + e / 2 * 8; };
    const auto unit = [&](int j, int e) { return unit0 + warp_unit + 8 * j + lane % 4 * 2 + e % 2; };
#pragma unroll
    for (int i = 0; i < 2; ++i)
#pragma unroll
      for (int j = 0; j < 4; ++j)
#pragma unroll
        for (int e = 0; e < 4; ++e) {
          if (row(i, e) >= n || unit(j, e) >= units) continue;
          const UnitEpilogue own = epilogue.of(unit(j, e));
          to[row(i, e) * units + unit(j, e)] = finish ? own(sums[i][j][e]) : sums[i][j][e];
          if (own.doubtful(sums[i][j][e])) doubtful |= 1u << (16 * i + 4 * j + e);
        }
    for (; finish && doubtful != 0; doubtful &= doubtful - 1) {
      const int at = __ffs(doubtful) - 1;
      epilogue.doubts.raise(row(at / 16, at % 4), unit(at / 4 % 4, at % 4));
    }
  };
  float total[2][4][4] = {}, sums[2][4][4] = {};
  copy(begin);
  copy_async_commit();
  for (int step = begin; step < end; ++step) {
    if (step + 1 < end) copy(step + 1);
    copy_async_commit();
    copy_async_wait_but_one();
    __syncthreads();
    const Stage& stage = stages[step % 2];
#pragma unroll
    for (int k = 0; k < 2; ++k) {  // 16 inputs at a time
      uint32_t x[2][2][4], w[2][2][4];
#pragma unroll
      for (int part = 0; part < (kProducts == 3 ? 2 : 1); ++part)
#pragma unroll
        for (int i = 0; i < 2; ++i) {
          load_matrices(x[part][i], stage.x[part] + place(warp_row + 16 * i + lane % 16, 2 * k + lane / 16));
          load_matrices(w[part][i],
                        stage.w[part] + place(warp_unit + 16 * i + lane / 16 * 8 + lane % 8, 2 * k + lane / 8 % 2));
        }
#pragma unroll
      for (int i = 0; i < 2; ++i)
#pragma unroll
        for (int j = 0; j < 4; ++j) {
          const auto product = [&](int a, int b) {
            mma_everywhere(sums[i][j], x[a][i], w[b][j / 2][j % 2 * 2], w[b][j / 2][j % 2 * 2 + 1]);
          };
          if (kProducts == 3) {
            product(1, 0);
            product(0, 1);
          }
          product(0, 0);
        }
    }
    __syncthreads();
    if ((step + 1) % kStepsAChunk == 0 || step + 1 == end) {
      if (call.partial != nullptr) store(sums, call.partial + step / kStepsAChunk * n * units, false);
#pragma unroll
      for (int i = 0; i < 2; ++i)
#pragma unroll
        for (int j = 0; j < 4; ++j)
#pragma unroll
          for (int e = 0; e < 4; ++e) {
            total[i][j][e] += sums[i][j][e];
            sums[i][j][e] = 0.0f;
          }
    }
  }
  if (call.partial == nullptr) store(total, call.y, true);
}

}  // namespace

int dense_parts_general(const DenseWeights& weights, int64_t n, int multiprocessors) {
  return static_cast<int>(
      std::max<int64_t>(1, 2 * multiprocessors / (ceil_div(n, kRows) * ceil_div(weights.units, kUnits))));
}

fops_status dense_general(const DenseCall& call) {
  const long long unit_tiles = ceil_div(call.weights.units, kUnits);
  if (unit_tiles > 65535 || call.parts > 65535)
    return fail(FOPS_UNSUPPORTED, "a dense layer of %lld units and %lld inputs is too large",
                static_cast<long long>(call.weights.units), static_cast<long long>(call.weights.inputs));
  const dim3 grid(static_cast<unsigned>(ceil_div(call.n, kRows)), static_cast<unsigned>(unit_tiles),
                  static_cast<unsigned>(call.parts));
  auto* kernel = call.products == 3 ? dense_mma<3> : dense_mma<1>;
  kernel<<<grid, kThreads, 0, call.stream>>>(call, call.stride(), epilogue(call));
  return launched("dense layer");
}

}  // namespace fops
