// Step 11: direct convolution in which a thread has a tile of outputs and filters in registers, with 16-byte stores.
//
//   a row of the image    | x x x x | x x x x |       two 16-byte reads
//   outputs of a thread     o o o o                   4 neighbours, of up to 12 filters
//   weights of a tap      | k k k k | k k k k | k k - - |   10 filters: three 16-byte broadcast reads
//
// Costs: registers.
// Gains: the fastest step without tensor cores on fa2017's layer. A row of 5 taps takes 2 + 15 reads for 200
// multiply-adds of 10 filters; in step 7 each multiply-add takes one read. Now the float32 pipes are the limit.
#include "conv/cuda/kernels.h"

namespace fops {
namespace {

constexpr int kThreads = 256;
constexpr int kPixels = 4;  // neighbouring outputs of a row per thread: one 16-byte store per filter

__host__ __device__ constexpr int round_up(int a, int b) { return (a + b - 1) / b * b; }

// window(K) is the number of input columns that kPixels outputs need, and row_floats the length of a row in shared
// memory. Both are rounded up to whole float4s; a row is long enough for the reads of its last group of outputs.
__host__ __device__ constexpr int window(int K) { return round_up(kPixels + K - 1, 4); }
__host__ __device__ constexpr int row_floats(int OW, int K) { return round_up(OW, kPixels) - kPixels + window(K); }

template <int K, int kFilters, typename X>
__global__ void __launch_bounds__(kThreads) register_tile(Dims d, bool vector, const X* __restrict__ x,
                                                          const float* __restrict__ k, float* __restrict__ y) {
  constexpr int kPadded = round_up(kFilters, 4);  // number of a tap's weights per group of filters, in whole float4s
  extern __shared__ __align__(16) float shared[];
  const int row = row_floats(d.OW, K), groups = (d.OW + kPixels - 1) / kPixels * d.OH;
  const int filter_groups = (d.M + kFilters - 1) / kFilters, taps = d.C * K * K, plane = d.OH * d.OW;
  float* image = shared;                           // [C][H][row]
  float* weights = shared + d.C * d.H * row;       // [filter group][tap][kPadded]

  for (int i = threadIdx.x; i < filter_groups * taps * kPadded; i += kThreads) {
    const int j = i % kPadded, tap = i / kPadded % taps, m = i / (kPadded * taps) * kFilters + j;
    weights[i] = j < kFilters && m < d.M ? k[m * taps + tap] : 0.0f;
  }

  for (long long b = blockIdx.x; b < d.B; b += gridDim.x) {
    __syncthreads();  // waits until all threads have read the previous image
    const X* source = x + b * d.C * d.H * d.W;
    for (int i = threadIdx.x; i < d.C * d.H * row; i += kThreads) {
      const int w = i % row;
      image[i] = w < d.W ? static_cast<float>(source[i / row * d.W + w]) : 0.0f;
    }
    __syncthreads();

    // Neighbouring threads compute neighbouring outputs of the same filters, so that a warp's stores are whole cache
    // lines, and its reads of weights are broadcasts.
    for (int task = threadIdx.x; task < groups * filter_groups; task += kThreads) {
      const int group = task % groups, filter_group = task / groups;
      const int h = group / (groups / d.OH), w = group % (groups / d.OH) * kPixels;
      float sum[kFilters][kPixels] = {};
      for (int c = 0; c < d.C; ++c) {
        const float* filter = weights + (filter_group * taps + c * K * K) * kPadded;
#pragma unroll
        for (int p = 0; p < K; ++p) {
          float in[window(K)];
#pragma unroll
          for (int i = 0; i < window(K); i += 4)
            *reinterpret_cast<float4*>(in + i) =
                *reinterpret_cast<const float4*>(image + (c * d.H + h + p) * row + w + i);
#pragma unroll
          for (int q = 0; q < K; ++q) {
            float weight[kPadded];
#pragma unroll
            for (int j = 0; j < kPadded; j += 4)
              *reinterpret_cast<float4*>(weight + j) =
                  *reinterpret_cast<const float4*>(filter + (p * K + q) * kPadded + j);
#pragma unroll
            for (int j = 0; j < kFilters; ++j)
#pragma unroll
              for (int i = 0; i < kPixels; ++i) sum[j][i] += weight[j] * in[q + i];
          }
        }
      }
#pragma unroll
      for (int j = 0; j < kFilters; ++j) {
        const int m = filter_group * kFilters + j;
        if (m >= d.M) break;
        float* out = y + (b * d.M + m) * plane + h * d.OW + w;
        if (vector) {
          *reinterpret_cast<float4*>(out) = make_float4(sum[j][0], sum[j][1], sum[j][2], sum[j][3]);
        } else {
#pragma unroll
          for (int i = 0; i < kPixels; ++i)
            if (w + i < d.OW) out[i] = sum[j][i];
        }
      }
    }
  }
}

// Returns the number of filters per thread: that of 12, 10, 8 and 6 for which M needs the least padding; the larger one
// of two equally good numbers.
int filters_a_thread(int64_t M) {
  int best = 12;
  for (int f : {10, 8, 6})
    if (ceil_div(M, f) * f < ceil_div(M, best) * best) best = f;
  return best;
}

size_t shared_bytes(const fops_conv& c) {
  const int f = filters_a_thread(c.M);
  return sizeof(float) * (c.C * c.H * row_floats(static_cast<int>(out_w(c)), static_cast<int>(c.K)) +
                          ceil_div(c.M, f) * c.C * c.K * c.K * round_up(f, 4));
}

template <int K, int kFilters>
fops_status run(const fops_conv& c, const void* x, const float* k, float* y, void* stream) {
  const Dims d = dims(c);
  const bool vector = d.OW % kPixels == 0 && reinterpret_cast<uintptr_t>(y) % 16 == 0;
  const size_t shared = shared_bytes(c);
  return with_input(c, x, [&](auto typed) {
    auto* kernel = register_tile<K, kFilters, std::remove_cv_t<std::remove_pointer_t<decltype(typed)>>>;
    unsigned grid = 0;
    FOPS_TRY(resident_grid(kernel, kThreads, shared, d.B, &grid));
    kernel<<<grid, kThreads, shared, static_cast<cudaStream_t>(stream)>>>(d, vector, typed, k, y);
    return launched("register-tile");
  });
}

template <int K>
fops_status run(const fops_conv& c, const void* x, const float* k, float* y, void* stream) {
  switch (filters_a_thread(c.M)) {
    case 12: return run<K, 12>(c, x, k, y, stream);
    case 10: return run<K, 10>(c, x, k, y, stream);
    case 8: return run<K, 8>(c, x, k, y, stream);
    default: return run<K, 6>(c, x, k, y, stream);
  }
}

}  // namespace

bool takes_register_tile(const fops_conv& c) {
  return takes_any(c) && (c.K == 3 || c.K == 5) && image_floats(c) <= 24000 && weight_floats(c) <= 24000 &&
         shared_bytes(c) <= 99 * 1024 && output_floats(c) <= INT_MAX;
}

fops_status run_register_tile(const fops_conv& c, const void* x, const float* k, float* y, void* stream) {
  return c.K == 3 ? run<3>(c, x, k, y, stream) : run<5>(c, x, k, y, stream);
}

}  // namespace fops
