// Several channels and few filters, on Hopper: a row of pixels contributes to all K rows of outputs at once.
//
//   A: 64 columns, registers    B: K rows x filters, shared      D: 64 columns x K output rows x filters, registers
//   4 warps x 16 columns    x   | row 0 | 1 | ... | K - 1 |  +=  a row of pixels takes a few wgmma
//
// A tile is 64 columns of outputs, computed from top to bottom, a row of pixels at a time. A row of pixels, multiplied
// with row p of the filters, contributes to the output row p rows up. So with every row of pixels a sum moves on by a
// place, and at the last place it is complete. The first and last K - 1 rows of pixels contribute to fewer rows of
// outputs, which takes narrower instructions.
// Costs: small batches take longer than with image_bands.cu, which cannot be used for them, because an image must have
// the same bits in every batch.
// Gains: a staged pixel is read K times, not K K times; filters fill the instruction; no computed column is dropped.
#include "conv/hopper/pipeline.cuh"
#include "conv/hopper/scheduler.cuh"
#include "conv/hopper/variants.h"
#include "conv/hopper/variants/column_major_tiles_roles.cuh"

namespace fops {
namespace {

using namespace column_major;

template <typename Form>
__global__ void __launch_bounds__(bound_with_wgmma(kThreads), 1)
    tensor_core_column_major_tiles(const __grid_constant__ Dims d, const __grid_constant__ Tiling tiling,
                                   const float* __restrict__ x, const float* __restrict__ k, float* __restrict__ y) {
#if FOPS_SM_90A
  constexpr int K = Form::K, kFilters = Form::kFilters, kWords = Form::kWords;
  constexpr int kPhase = Form::kPhase, kPlaces = Form::kPlaces, kSteps = Form::kSteps, kStored = Form::kStored;
  constexpr int kSums = kFilters / 2;  // accumulators per place and lane
  extern __shared__ __align__(128) uint4 dynamic[];
  __shared__ Shared<Form> shared;
  uint4* weights = dynamic;
  uint2* all_pixel_stages = reinterpret_cast<uint2*>(weights + kSteps * 4 * kStored);
  float* outgoing_all = reinterpret_cast<float*>(all_pixel_stages + kTeams * kBuffers * tiling.chunk);

  // Words past the staged pixels are multiplied by zero weights, so they must not be NaN.
  for (int i = threadIdx.x; i < kTeams * kBuffers * tiling.chunk / 2; i += kThreads)
    reinterpret_cast<uint4*>(all_pixel_stages)[i] = make_uint4(0, 0, 0, 0);
  if (threadIdx.x == 0) {
    for (int team = 0; team < kTeams; ++team) {
      for (int i = 0; i < kBuffers; ++i) {
        shared.needs_fallback[team][i] = 0;
        barrier_init(&shared.full[team][i], kProducerThreads);
        barrier_init(&shared.empty[team][i], 128);
      }
      for (int i = 0; i < Form::kOutgoing; ++i) {
        barrier_init(&shared.full_out[team][i], 128);
        barrier_init(&shared.empty_out[team][i], 32);
      }
    }
    barrier_init_end();
  }
  __syncthreads();

  const int group = __shfl_sync(0xffffffffu, threadIdx.x / 128, 0);  // shows the compiler that this is warp-uniform
  const int team = group % kTeams;
  uint2* pixel_stages = all_pixel_stages + team * kBuffers * tiling.chunk;
  float* outgoing = outgoing_all + team * Form::kOutgoing * Form::kOutputs;
  if (group >= kTeams) {
    setmaxnreg_dec<Form::kProducerRegisters>();
    if (__shfl_sync(0xffffffffu, threadIdx.x % 128, 0) < kProducerThreads)
      stage_pixels(d, tiling, shared, team, x, pixel_stages);
    else
      store_outputs(d, tiling, shared, team, x, outgoing, y);
    return;
  }

  setmaxnreg_inc<Form::kConsumerRegisters>();
  static_assert(kTeams * Form::kOutgoing * Form::kOutputs >= kFilters * 2 * kWords * K * K, "room for all weights");
  split_weights(d, tiling.threshold, k, outgoing_all, weights, shared);  // uses the buffer for outputs, still empty
  const bool weights_need_fallback = shared.weights_need_fallback;
  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32 % 4, g = lane / 4, t = lane % 4;
  const int row_words = tiling.positions * kWords;
  const uint32_t corner = static_cast<uint32_t>(core_descriptor(shared_address(weights), 2 * kStored * 16, 128));

  // all_high: a phase's products of high parts, [place][accumulator of a lane]. all_small: its products with a low
  // part. sum: the sums of the previous phases.
  float all_high[kPlaces * kSums] = {}, all_small[kPlaces * kSums] = {}, sum[kPlaces][kSums] = {};
  Operands now[2];
  PipelineState state, out;
  uint32_t number = 0;  // number of the chunk
  // The teams multiply in turn, one phase each, and switch when half of the steps are issued. So one team multiplies
  // while the other adds up.
  const auto wait_turn = [&] { named_barrier(kColumnTilesTurn + team, 128 * kTeams); };
  const auto pass_turn = [&] { named_arrive(kColumnTilesTurn + (team ^ 1), 128 * kTeams); };
  if (team == 1) pass_turn();
  for (unsigned round = 0, base = blockIdx.x * kTeams; base < tiling.tasks; ++round, base += gridDim.x * kTeams) {
    const unsigned at = base + team;
    if (at >= tiling.tasks) {  // only the other team has another task; this team passes its turns on
      const int rows = Task(tiling, d, base).rows + K - 1;
      for (int row = 0; row < rows; row += kPhase) wait_turn(), pass_turn();
      break;
    }
    const Task task(tiling, d, at);
    const OutputColumn a(tiling, d, task, warp * 16 + g), b(tiling, d, task, warp * 16 + g + 8);
    const int from_a = a.position * kWords + 2 * t, from_b = b.position * kWords + 2 * t;
    barrier_wait(&shared.full[team][state.stage], state.phase);
    bool needs_fallback = shared.needs_fallback[team][state.stage] == ++number;
    // The factors that undo the scales of the columns' images go to shared memory, stored by the columns' warp.
    const ImageScale* scales = shared.scales[team][round % kScales];
    const int last_image = task.images(d) - 1;
    __syncwarp();  // waits until the warp has read the previous task's factors
    if (t == 0) {
      shared.image_unscale[team][warp * 16 + g] = 1.0f / scales[min(a.image, last_image)].scale;
      shared.image_unscale[team][warp * 16 + g + 8] = 1.0f / scales[min(b.image, last_image)].scale;
    }
    __syncwarp();
    const uint2* row_at = pixel_stages + state.stage * tiling.chunk;
    const auto load = [&](int step) {
      const uint2* words = row_at + step / kSteps * row_words + 8 * (step % kSteps);
      now[step % 2].load(words + from_a, words + from_b);
    };
    load(0), load(1);
    int in_chunk = 0;  // number of rows of the chunk that have been multiplied
    // Computes the next phase for the given places: multiplies, and adds up while the other team multiplies.
    const auto phase = [&](auto places) {
      constexpr int kFirst = decltype(places)::kFirst, kLast = decltype(places)::kLast;
      constexpr int kColumns = decltype(places)::kCount * kFilters, kAll = kPhase * kSteps;
      constexpr bool kMore = kFirst < kPlaces - kPhase, kComplete = kLast == kPlaces - 1;
      auto& high = reinterpret_cast<float (&)[kColumns / 2]>(all_high);
      auto& small = reinterpret_cast<float (&)[kColumns / 2]>(all_small);
      wait_turn();
#pragma unroll
      for (int s = 0; s < kAll; ++s) {
        // The phase's second row of pixels is multiplied with weights that begin one filter row further on.
        const uint32_t b = corner + s % kSteps * 4 * kStored + (s / kSteps + kFirst) * kFilters;
        wgmma_fence();
        wgmma_rs<kColumns>(high, now[s % 2].high, b, s > 0);
        wgmma_rs<kColumns>(small, now[s % 2].high, b + kStored, s > 0);
        wgmma_rs<kColumns>(small, now[s % 2].low, b, 1);
        wgmma_commit();
        if (s + 1 == kAll / 2) pass_turn();
        if (s + 1 == kAll) {
          row_at += kPhase * row_words;
          if ((in_chunk += kPhase) == Form::kRows || !kMore) {
            barrier_arrive(&shared.empty[team][state.stage]);
            state.next(kBuffers);
            in_chunk = 0;
            if (kMore) {
              barrier_wait(&shared.full[team][state.stage], state.phase);
              needs_fallback |= shared.needs_fallback[team][state.stage] == ++number;
            }
            row_at = pixel_stages + state.stage * tiling.chunk;
          }
          if (kComplete) barrier_wait(&shared.empty_out[team][out.stage], out.phase ^ 1);
        }
        if (s > 0) {  // loads the next step's words into the registers of the previous step
          wgmma_wait_but<1>();
          now[(s + 1) % 2].keep();
          load(s + 1 == kAll ? 0 : s + 1);
        }
      }
      float2 unscale[kFilters / 8];
#pragma unroll
      for (int j = 0; j < kFilters / 8; ++j)
        unscale[j] = *reinterpret_cast<const float2*>(shared.unscale + 8 * j + 2 * t);
      wgmma_wait(high), wgmma_wait(small);
      now[1].keep();
      load(1);
      const uint32_t thread = thread_anew();
      const int index = thread / 32 % 4 * 16 + thread % 32 / 4;
      const float image_unscale[2] = {shared.image_unscale[team][index], shared.image_unscale[team][index + 8]};
      float* outputs = outgoing + out.stage * Form::kOutputs + thread % 4 * 2 * kStride + index;
#pragma unroll
      for (int i = 0; i < kSums; ++i)
#pragma unroll
        for (int p = kLast; p >= kFirst; --p) {
          const int product = (p - kFirst) * kSums + i;
          float v = high[product] + small[product] * (1.0f / kLowScale);
          if (p >= kPhase) v = sum[p][i] + v;
          if (p < K - 1) {
            sum[p + kPhase][i] = v;
          } else {  // the sum is complete; it is an output in row kPlaces - 1 - p of the phase
            const float of_filter = i % 2 ? unscale[i / 4].y : unscale[i / 4].x;
            outputs[((kPlaces - 1 - p) * kFilters + i / 4 * 8 + i % 2) * kStride + i % 4 / 2 * 8] =
                v * of_filter * image_unscale[i % 4 / 2];
          }
        }
      if (kComplete) {
        barrier_arrive(&shared.full_out[team][out.stage]);
        out.next(Form::kOutgoing);
      }
    };
    each<(K - 1) / kPhase>([&](auto n) { phase(Places<0, (n + 1) * kPhase - 1>()); });
#pragma unroll 1
    for (int row = K - 1; row < task.rows; row += kPhase) phase(Places<0, kPlaces - 1>());
    each<(K - 1) / kPhase>([&](auto n) {
      if (task.rows + (n + 1) * kPhase >= K) phase(Places<(n + 1) * kPhase, kPlaces - 1>());
    });

    if (needs_fallback || weights_need_fallback) {
      PipelineState last = out;
      for (int i = 0; i < Form::kOutgoing; ++i, last.next(Form::kOutgoing))  // waits until all outputs have been stored
        barrier_wait(&shared.empty_out[team][last.stage], last.phase ^ 1);
      fallback_task(d, tiling, kColumnTilesFallback + team, weights_need_fallback, at, scales, x, k, y, kFilters,
                    *reinterpret_cast<FallbackScratch*>(outgoing));
    }
  }
#endif
}

template <typename Form>
size_t shared_bytes(const Tiling& tiling) {
  return Form::kSteps * 4 * Form::kStored * sizeof(uint4) +
         kTeams * (kBuffers * tiling.chunk * sizeof(uint2) + Form::kOutgoing * Form::kOutputs * sizeof(float));
}

template <typename Form>
fops_status launch(const fops_conv& c, const float* x, const float* k, float* y, cudaStream_t stream) {
  auto* kernel = tensor_core_column_major_tiles<Form>;
  int sms = 0;
  FOPS_TRY(count_sms(&sms));
  return in_pieces(c, out_w(c) * out_h(c), [&](const Dims& piece, long long first) {
    Tiling tiling = cut_into_column_tiles(piece, Form::kPhase, static_cast<long long>(kTeams) * sms);
    tiling.pairs = piece.OW % 2 == 0 && reinterpret_cast<uintptr_t>(y) % 8 == 0;
    tiling.chunk = Form::kRows * tiling.positions * Form::kWords + 8;  // 8: words that are read past the last column's
    const size_t shared = shared_bytes<Form>(tiling);
    FOPS_TRY(allow_shared(kernel, shared));
    const long long blocks = std::min<long long>(ceil_div(tiling.tasks, kTeams), sms);
    kernel<<<static_cast<unsigned>(blocks), kThreads, shared, stream>>>(piece, tiling, x + first * image_floats(c), k,
                                                                        y + first * output_floats(c));
    return launched("tensor-core");
  });
}

using Fa2020 = Form<7, 16, 2, 2>;  // fa2020's second layer

bool usable() { return has_code_here(tensor_core_column_major_tiles<Fa2020>, kThreads); }

}  // namespace

bool takes_column_major_tiles(const fops_conv& c) {
  return takes_any(c) && c.x_type == FOPS_FLOAT32 && c.K == Fa2020::K && c.C == 2 * Fa2020::kWords && c.M > 8 &&
         c.M <= Fa2020::kFilters && fits_producers(c) && usable();
}

fops_status run_column_major_tiles(const fops_conv& c, const void* x, const float* k, float* y, cudaStream_t stream) {
  return launch<Fa2020>(c, static_cast<const float*>(x), k, y, stream);
}

}  // namespace fops
