// Step 10: implicit GEMM, the product of step 9 without the unrolled matrix in global memory: tiles of that matrix are
// gathered from x when they are needed.
//
//              lane 0     lane 1     ...  lane 31         A block computes 64 filters x 128 outputs (fewer filters if M is
//   warp 0     8 x 4      8 x 4           8 x 4           small), 8 taps at a time. a[8 taps][64 filters] and
//   warp 1     8 x 4      8 x 4           8 x 4           b[8 taps][128 outputs] are in shared memory; a lane's sums, for
//   ...                                                   8 filters x 4 neighbouring outputs, are in registers.
//
// Costs: index arithmetic for every gathered value.
// Gains: the matrix causes no traffic; a value that is read from shared memory serves several multiply-adds; any shape
// is supported, so `auto` uses this kernel for shapes that no faster kernel supports.
#include <type_traits>

#include "conv/cuda/kernels.h"

namespace fops {
namespace {

constexpr int kThreads = 256;
constexpr int kPixels = 128;  // positions of outputs per block; they may belong to several images
constexpr int kDepth = 8;     // taps per step
// With more than kShort taps, groups of taps are summed separately, and their sums are added (kLong). A group has 16
// taps if there are up to 256 taps, otherwise 32.
constexpr int kShort = 25;
constexpr int together(int taps) { return taps <= 256 ? 16 : 32; }

// A block computes kFilters x 128 outputs. Each of its 8 warps computes kFilters / 8 filters, and each lane 4
// neighbouring positions. So weights are read from shared memory by broadcasts, and pixels 16 bytes at a time.
template <int kFilters, bool kLong, typename X>
__global__ void __launch_bounds__(kThreads) implicit_gemm(Dims d, bool vector, int chain,
                                                          const X* __restrict__ x, const float* __restrict__ k,
                                                          float* __restrict__ y) {
  constexpr int kOwn = kFilters / 8;
  __shared__ float a[kDepth][kFilters];
  __shared__ __align__(16) float b[kDepth][kPixels];
  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
  const long long plane = 1LL * d.OH * d.OW, pixels = d.B * plane;
  const int taps = d.C * d.K * d.K;
  const long long tiles_m = ceil_div(d.M, kFilters), tasks = tiles_m * ceil_div(pixels, kPixels);

  for (long long task = blockIdx.x; task < tasks; task += gridDim.x) {
    const int m0 = static_cast<int>(task % tiles_m) * kFilters;
    const long long n0 = task / tiles_m * kPixels;

    // The position whose pixels this thread gathers. It is the same in every step.
    const long long n = n0 + threadIdx.x % kPixels;
    const bool inside = n < pixels;
    const long long image = n / plane, pixel = n % plane;
    const X* corner = x + (image * d.C * d.H + pixel / d.OW) * d.W + pixel % d.OW;

    float total[kOwn][4] = {}, sum[kOwn][4] = {};
    for (int t = 0; t < taps; t += kDepth) {
      for (int i = threadIdx.x; i < kDepth * kFilters; i += kThreads) {
        const int m = m0 + i / kDepth, tap = t + i % kDepth;
        a[i % kDepth][i / kDepth] = m < d.M && tap < taps ? k[1LL * m * taps + tap] : 0.0f;
      }
#pragma unroll
      for (int i = 0; i < kDepth * kPixels / kThreads; ++i) {
        const int row = threadIdx.x / kPixels + i * (kThreads / kPixels), tap = t + row;
        const int q = tap % d.K, p = tap / d.K % d.K, c = tap / (d.K * d.K);
        b[row][threadIdx.x % kPixels] =
            inside && tap < taps ? static_cast<float>(corner[(1LL * c * d.H + p) * d.W + q]) : 0.0f;
      }
      __syncthreads();
      // Excludes padding taps: 0 times an infinity would be NaN.
      const int last = min(kDepth, taps - t);
#pragma unroll
      for (int i = 0; i < kDepth; ++i) {
        if (i >= last) break;
        const float4 in = reinterpret_cast<const float4*>(b[i])[lane];
#pragma unroll
        for (int j = 0; j < kOwn; ++j) {
          const float weight = a[i][warp * kOwn + j];
          sum[j][0] += in.x * weight;
          sum[j][1] += in.y * weight;
          sum[j][2] += in.z * weight;
          sum[j][3] += in.w * weight;
        }
      }
      __syncthreads();
      if (kLong && (t + kDepth & chain - 1) == 0) {
#pragma unroll
        for (int j = 0; j < kOwn; ++j)
#pragma unroll
          for (int i = 0; i < 4; ++i) total[j][i] += sum[j][i], sum[j][i] = 0.0f;
      }
    }

    if (kLong) {
#pragma unroll
      for (int j = 0; j < kOwn; ++j)
#pragma unroll
        for (int i = 0; i < 4; ++i) sum[j][i] += total[j][i];
    }

    const long long first = n0 + lane * 4;  // this thread's first position; its four may belong to two images
    for (int j = 0; j < kOwn; ++j) {
      const int m = m0 + warp * kOwn + j;
      if (m >= d.M || first >= pixels) continue;
      if (vector) {
        float* out = y + ((first / plane) * d.M + m) * plane + first % plane;
        *reinterpret_cast<float4*>(out) = make_float4(sum[j][0], sum[j][1], sum[j][2], sum[j][3]);
      } else {
#pragma unroll
        for (int i = 0; i < 4; ++i)
          if (first + i < pixels) y[((first + i) / plane * d.M + m) * plane + (first + i) % plane] = sum[j][i];
      }
    }
  }
}

template <int kFilters>
fops_status run(const fops_conv& c, const void* x, const float* k, float* y, void* stream) {
  const Dims d = dims(c);
  const long long plane = 1LL * d.OH * d.OW;
  const bool vector = plane % 4 == 0 && reinterpret_cast<uintptr_t>(y) % 16 == 0;
  const unsigned grid = grid_for(ceil_div(d.M, kFilters) * ceil_div(d.B * plane, kPixels));
  return with_input(c, x, [&](auto typed) {
    using In = std::remove_cv_t<std::remove_pointer_t<decltype(typed)>>;
    const int taps = d.C * d.K * d.K;
    auto* kernel = taps > kShort ? implicit_gemm<kFilters, true, In> : implicit_gemm<kFilters, false, In>;
    kernel<<<grid, kThreads, 0, static_cast<cudaStream_t>(stream)>>>(d, vector, together(taps), typed, k, y);
    return launched("implicit-gemm");
  });
}

}  // namespace

fops_status run_implicit_gemm(const fops_conv& c, const void* x, const float* k, float* y, void* stream) {
  if (c.M <= 8) return run<8>(c, x, k, y, stream);
  if (c.M <= 16) return run<16>(c, x, k, y, stream);
  if (c.M <= 32) return run<32>(c, x, k, y, stream);
  return run<64>(c, x, k, y, stream);
}

}  // namespace fops
