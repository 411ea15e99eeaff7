// column_major_tiles.cu with two consumer warpgroups per tile: one multiplies high halves, one the products with a low
// half.
//
//   A: 64 columns, registers    B: K rows x filters, shared      D: 64 columns x K output rows x filters, registers
//   4 warps x 16 columns    x   | row 0 | 1 | ... | K - 1 |  +=  the first: high sums, new for each row of pixels
//                                                                the second: small sums, kept for K rows of pixels
//
// Each has registers for its sums, and while one adds up the other multiplies. The small sums do not move: place q has
// output rows q, q + K, ... in turn, and for each row of pixels the filters' rows are one place further on.
// Costs: outputs come in two parts, which are added in shared memory.
#include "conv/cuda/kernels.h"
#include "conv/hopper/pipeline.cuh"
#include "conv/hopper/scheduler.cuh"
#include "conv/hopper/variants.h"
#include "conv/hopper/variants/column_major_split_roles.cuh"

namespace fops {
namespace {

using namespace column_major_split;

// Where a consumer warpgroup is: in the staged pixels, and in the outputs on their way.
template <typename Form>
struct Progress {
  const Tiling& tiling;
  Shared<Form>& shared;
  const uint32_t *pixel_stages, *row;  // all chunks, and the row of pixels that is multiplied next
  PipelineState state, out;
  int in_chunk = 0;             // rows of the chunk that have been multiplied
  uint32_t number = 0;          // of the chunk
  bool needs_fallback = false;  // whether a chunk had an unsplittable value

  __device__ __forceinline__ Progress(const Tiling& tiling, Shared<Form>& shared, const uint32_t* pixel_stages)
      : tiling(tiling), shared(shared), pixel_stages(pixel_stages) {}
  __device__ __forceinline__ void await_chunk() {
    barrier_wait(&shared.full[state.stage], state.phase);
    needs_fallback |= shared.needs_fallback[state.stage] == ++number;
    row = pixel_stages + state.stage * tiling.chunk;
  }
  // Behind the last use of a row of pixels. `more`: whether the task has another one.
  __device__ __forceinline__ void next_row(bool more) {
    row += 2 * tiling.positions * Form::kWords;
    if (++in_chunk < Form::kRows && more) return;
    barrier_arrive(&shared.empty[state.stage]);
    state.next(kBuffers);
    in_chunk = 0;
    if (more) await_chunk();
  }
  __device__ __forceinline__ void await_room() { barrier_wait(&shared.empty_out[out.stage], out.phase ^ 1); }
  __device__ __forceinline__ void outputs_there() {
    barrier_arrive(&shared.full_out[out.stage]);
    out.next(kOutgoing);
  }
};

// The lane map. Lane 4g + t of warp w, g = 0..7, t = 0..3, holds, of a step's eight words of a pixel's row,
//
//   A: column 16w + g        words 2t -> a0, 2t + 1 -> a2        D: column 16w + g      filters 2t, 2t+1 of every eight
//      column 16w + g + 8          2t -> a1, 2t + 1 -> a3           column 16w + g + 8  the same
struct LaneMap {
  int index, words, outputs;  // of the first column, in a pixel's words, and among the outputs of a row
  __device__ LaneMap() {
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32 % 4, g = lane / 4, t = lane % 4;
    index = warp * 16 + g, words = 2 * t, outputs = 2 * t * kStride + index;
  }
};

// A row of pixels as operands: of its high or low halves, words from `a` and `b` on for the lane's two columns.
template <typename Form>
struct Operands {
  uint32_t v[Form::kSteps][4];
  __device__ __forceinline__ void load(const uint32_t* a, const uint32_t* b) {
#pragma unroll
    for (int s = 0; s < Form::kSteps; ++s) {
      const uint2 p = *reinterpret_cast<const uint2*>(a + 8 * s), q = *reinterpret_cast<const uint2*>(b + 8 * s);
      v[s][0] = p.x, v[s][1] = q.x, v[s][2] = p.y, v[s][3] = q.y;
    }
  }
  // After the wait for the wgmma that read them.
  __device__ __forceinline__ void keep() {
#pragma unroll
    for (int s = 0; s < Form::kSteps; ++s)
#pragma unroll
      for (int i = 0; i < 4; ++i) keep_register(v[s][i]);
  }
};

// Where output i of a lane's sums lies behind its first one.
__device__ __forceinline__ constexpr int output_at(int i) {
  return (i / 4 * 8 + i % 2) * kStride + i % 4 / 2 * 8;
}

// High halves of pixels and filters. A row of pixels is a chain of its own (plan.h); what row p of the filters gives
// belongs to the output p rows up: a sum moves on by a place with every row, and is complete at the last one.
template <typename Form>
__device__ __forceinline__ void multiply_high(const Dims& d, const Tiling& tiling, Shared<Form>& shared,
                                              uint32_t corner, const uint32_t* pixel_stages, float* outgoing,
                                              const float* x, const float* k, float* y) {
  constexpr int K = Form::K, kSteps = Form::kSteps, kStored = Form::kStored, kSums = Form::kFilters / 2;
  const bool weights_need_fallback = shared.weights_need_fallback;
  const LaneMap mine;
  float sum[K - 1][kSums] = {};
  Operands<Form> operands;
  Progress<Form> now(tiling, shared, pixel_stages);
  for (unsigned round = 0, at = blockIdx.x; at < tiling.tasks; ++round, at += gridDim.x) {
    const Task task(tiling, d, at);
    const int a = OutputColumn(tiling, d, task, mine.index).position * Form::kWords + mine.words;
    const int b = OutputColumn(tiling, d, task, mine.index + 8).position * Form::kWords + mine.words;
    now.needs_fallback = false;
    now.await_chunk();
    operands.load(now.row + a, now.row + b);
    // The next row of pixels: its products for these places, and their sums.
    const auto multiply = [&](auto places) {
      constexpr int kFirst = decltype(places)::kFirst, kLast = decltype(places)::kLast;
      constexpr int kColumns = decltype(places)::kCount * Form::kFilters;
      constexpr bool kMore = kFirst < K - 1, kComplete = kLast == K - 1;
      float high[kColumns / 2];  // the first step does not read it
#pragma unroll
      for (int s = 0; s < kSteps; ++s) {
        wgmma_fence();
        wgmma_rs<kColumns>(high, operands.v[s], corner + s * 4 * kStored + (K - kLast) * Form::kFilters, s > 0);
        wgmma_commit();
      }
      now.next_row(kMore);
      if (kComplete) now.await_room();
      wgmma_wait(high);
      operands.keep();
      operands.load(now.row + a, now.row + b);  // behind the last row: not used
      float* outputs = outgoing + now.out.stage * 2 * Form::kOutputs + mine.outputs;
#pragma unroll
      for (int i = 0; i < kSums; ++i)
#pragma unroll
        for (int p = kLast; p >= kFirst; --p) {
          float v = high[(kLast - p) * kSums + i];
          if (p > 0) v += sum[p - 1][i];
          if (p < K - 1) sum[p][i] = v;
          else outputs[output_at(i)] = v;
        }
      if (kComplete) now.outputs_there();
    };
    each<K - 1>([&](auto n) { multiply(Places<0, n>()); });
#pragma unroll 1
    for (int row = K - 1; row < task.rows; ++row) multiply(Places<0, K - 1>());
    each<K - 1>([&](auto n) {
      if (task.rows + n >= K - 1) multiply(Places<n + 1, K - 1>());
    });
    if (now.needs_fallback || weights_need_fallback) {
      PipelineState last = now.out;
      for (int i = 0; i < kOutgoing; ++i, last.next(kOutgoing))  // all outputs have been stored
        barrier_wait(&shared.empty_out[last.stage], last.phase ^ 1);
      column_major::fallback_task(d, tiling, kColumnSplitFallback, weights_need_fallback, at,
                                  shared.scales[round % kScales], x, k, y, Form::kFilters, shared.room);
    }
  }
}

// Products with one low half, all 2^11 times as large as they are: small enough for a chain of all rows of pixels.
template <typename Form>
__device__ __forceinline__ void multiply_low(const Dims& d, const Tiling& tiling, Shared<Form>& shared,
                                             uint32_t corner, const uint32_t* pixel_stages, float* outgoing) {
  constexpr int K = Form::K, kFilters = Form::kFilters, kSteps = Form::kSteps, kStored = Form::kStored;
  constexpr int kSums = kFilters / 2;
  const LaneMap mine;
  const int to_low = tiling.positions * Form::kWords;
  float small[K * kSums];
  Operands<Form> high, low;
  Progress<Form> now(tiling, shared, pixel_stages);
  for (unsigned at = blockIdx.x; at < tiling.tasks; at += gridDim.x) {
    const Task task(tiling, d, at);
    const int a = OutputColumn(tiling, d, task, mine.index).position * Form::kWords + mine.words;
    const int b = OutputColumn(tiling, d, task, mine.index + 8).position * Form::kWords + mine.words;
    const auto load = [&] {
      high.load(now.row + a, now.row + b);
      low.load(now.row + to_low + a, now.row + to_low + b);
    };
    // The next row of pixels: the first `places` of the sums meet the filters' rows that are stored from `turn` on.
    const auto multiply = [&](auto turn, auto places, bool more, bool complete) {
      constexpr int kColumns = places * kFilters;
      auto& sums = reinterpret_cast<float(&)[kColumns / 2]>(small);
      // From a value that the compiler does not know: it would keep the addresses of all turns in registers, and spill.
      keep_register(corner);
      const uint32_t turned = __shfl_sync(0xffffffffu, corner, 0) + turn * kFilters;
#pragma unroll
      for (int s = 0; s < kSteps; ++s) {
        wgmma_fence();
        wgmma_rs<kColumns>(sums, high.v[s], turned + s * 4 * kStored + kStored, 1);
        wgmma_rs<kColumns>(sums, low.v[s], turned + s * 4 * kStored, 1);
        wgmma_commit();
      }
      now.next_row(more);
      if (complete) now.await_room();
      wgmma_wait(sums);
      high.keep(), low.keep();
      load();  // behind the last row: not used
    };
    const auto take = [&](float* done) {
      float* outputs = outgoing + (now.out.stage * 2 + 1) * Form::kOutputs + mine.outputs;
#pragma unroll
      for (int i = 0; i < kSums; ++i) {
        outputs[output_at(i)] = done[i];
        clear_sum(done[i]);
      }
      now.outputs_there();
    };
    const auto down = [&](auto places) {  // the sums behind the first place's, as many places, one place down
#pragma unroll
      for (int i = 0; i < places * kSums; ++i) move_sum(small[i], small[i + kSums]);
    };
    now.await_chunk();
    load();
    // Output row r is in place r mod K. A row of pixels meets row 0 of the filters with the newest output row, row 1
    // with the one before, and so on: the stored rows begin one place earlier with every row of pixels.
#pragma unroll
    for (int i = 0; i < K * kSums; ++i) begin_sum(small[i]);
    each<K - 1>([&](auto n) { multiply(Number<(K - n) % K>(), Number<n + 1>(), true, false); });
    int row = K - 1;
#pragma unroll 1
    while (row < task.rows)
      each<K>([&](auto n) {  // place n is complete
        if (row++ >= task.rows) return;
        multiply(Number<(K + 1 - n) % K>(), Number<K>(), true, true);
        take(small + n * kSums);
      });
    // The last K - 1 output rows into the first places, in order.
#pragma unroll 1
    for (int n = (task.rows + 1) % K; n > 0; --n) {
      float first[kSums];
#pragma unroll
      for (int i = 0; i < kSums; ++i) move_sum(first[i], small[i]);
      down(Number<K - 1>());
#pragma unroll
      for (int i = 0; i < kSums; ++i) move_sum(small[(K - 1) * kSums + i], first[i]);
    }
    each<K - 1>([&](auto n) {
      if (task.rows + n >= K - 1) {
        multiply(Number<1>(), Number<K - 1 - n>(), n < K - 2, true);
        take(small);
      }
      down(Number<K - 2 - n>());
    });
  }
}

template <typename Form>
__global__ void __launch_bounds__(bound_with_wgmma(kThreads), 1)
    tensor_core_column_major_split(const __grid_constant__ Dims d, const __grid_constant__ Tiling tiling,
                      const float* __restrict__ x, const float* __restrict__ k, float* __restrict__ y) {
#if FOPS_SM_90A
  extern __shared__ __align__(128) uint4 dynamic[];
  __shared__ Shared<Form> shared;
  uint4* weights = dynamic;
  uint32_t* pixel_stages = reinterpret_cast<uint32_t*>(weights + Form::kSteps * 4 * Form::kStored);
  float* outgoing = reinterpret_cast<float*>(pixel_stages + kBuffers * tiling.chunk);
  // A column's words run on behind its pixels, where they meet zero weights: no NaN may be there.
  for (int i = threadIdx.x; i < kBuffers * tiling.chunk / 4; i += kThreads)
    reinterpret_cast<uint4*>(pixel_stages)[i] = make_uint4(0, 0, 0, 0);
  if (threadIdx.x == 0) {
    for (int i = 0; i < kBuffers; ++i) {
      shared.needs_fallback[i] = 0;
      barrier_init(&shared.full[i], 2 * kProducerThreads);
      barrier_init(&shared.empty[i], kConsumerThreads);
    }
    barrier_init(&shared.chosen, 32);
    barrier_init(&shared.staging, 2 * kProducerThreads);
    for (int i = 0; i < kOutgoing; ++i) {
      barrier_init(&shared.full_out[i], kConsumerThreads);
      barrier_init(&shared.empty_out[i], kStoreThreads);
    }
    barrier_init_end();
  }
  __syncthreads();

  const int group = __shfl_sync(0xffffffffu, threadIdx.x / 128, 0);  // warp-uniform, which the compiler sees
  const uint32_t corner =
      static_cast<uint32_t>(core_descriptor(shared_address(weights), 2 * Form::kStored * 16, 128));
  static_assert(kOutgoing * 2 * Form::kOutputs >= Form::kFilters * 2 * Form::kWords * Form::K * Form::K,
                "room for all weights");
  // From one place for both groups: all threads that meet at a named barrier are to meet there from the same one.
  if (group < 2) split_weights(d, tiling.threshold, k, outgoing, weights, shared);
  if (group == 4) {
    setmaxnreg_dec<kStoreRegisters>();
    store_outputs(d, tiling, shared, outgoing, y);
  } else if (group >= 2) {
    setmaxnreg_dec<kProducerRegisters>();
    if (__shfl_sync(0xffffffffu, threadIdx.x % 128, 0) < kProducerThreads)
      stage_pixels(d, tiling, shared, group - 2, x, pixel_stages);
    else if (group == 2) choose_scales(d, tiling, shared, x);
  } else if (group == 1) {
    setmaxnreg_inc<kLowRegisters>();
    multiply_low<Form>(d, tiling, shared, corner, pixel_stages, outgoing);
  } else {
    setmaxnreg_inc<kHighRegisters>();
    multiply_high<Form>(d, tiling, shared, corner, pixel_stages, outgoing, x, k, y);
  }
#endif
}

template <typename Form>
fops_status launch(const fops_conv& c, const float* x, const float* k, float* y, cudaStream_t stream) {
  auto* kernel = tensor_core_column_major_split<Form>;
  int sms = 0;
  FOPS_TRY(count_sms(&sms));
  return in_pieces(c.B, out_w(c) * out_h(c), [&](long long first, long long count) {
    Dims piece = dims(c);
    piece.B = count;
    Tiling tiling = column_major::cut_into_column_tiles(piece, 1, sms);
    tiling.chunk = Form::kRows * 2 * tiling.positions * Form::kWords + 8;  // and what the last column's words run on
    const size_t shared = Form::kSteps * 4 * Form::kStored * sizeof(uint4) +
                          kBuffers * tiling.chunk * sizeof(uint32_t) + kOutgoing * 2 * Form::kOutputs * sizeof(float);
    FOPS_TRY(allow_shared(kernel, shared));
    const long long blocks = std::min<long long>(tiling.tasks, sms);
    kernel<<<static_cast<unsigned>(blocks), kThreads, shared, stream>>>(piece, tiling, x + first * image_floats(c), k,
                                                                         y + first * output_floats(c));
    return launched("tensor-core");
  });
}

using Fa2019 = Form<5, 24, 6>;  // its second layer

bool usable() { return has_code_here(tensor_core_column_major_split<Fa2019>, kThreads); }

}  // namespace

bool takes_column_major_split(const fops_conv& c) {
  return takes_any(c) && c.x_type == FOPS_FLOAT32 && c.K == Fa2019::K && c.C > 2 * Fa2019::kWords - 2 &&
         c.C <= 2 * Fa2019::kWords && c.M > 16 && c.M <= Fa2019::kFilters && column_major::fits_producers(c) &&
         usable();
}

fops_status run_column_major_split(const fops_conv& c, const void* x, const float* k, float* y, cudaStream_t stream) {
  return launch<Fa2019>(c, static_cast<const float*>(x), k, y, stream);
}

}  // namespace fops
