// Step 10: implicit GEMM. Step 9 without the unrolled matrix: its tiles are gathered from x as they are needed.
//
//              lane 0     lane 1     ...  lane 31         a block makes 64 filters x 128 outputs (fewer filters
//   warp 0     8 x 4      8 x 4           8 x 4           where M is small), 8 taps at a time:
//   warp 1     8 x 4      8 x 4           8 x 4           a[8 taps][64 filters], b[8 taps][128 outputs] in
//   ...        8 filters x 4 neighbouring outputs         shared memory; a lane's sums are in registers
//
// Costs: index arithmetic for every value gathered.
// Gains: no matrix and no traffic for it; a value read from shared memory serves several multiply-adds; any shape,
// which is why "auto" falls back to it.
#include <type_traits>

#include "conv/cuda/kernels.h"

namespace fops {
namespace {

constexpr int kThreads = 256;
constexpr int kPixels = 128;  // outputs per block, possibly across images
constexpr int kDepth = 8;     // taps per step
// Beyond kShort taps, groups of taps are summed separately (kLong): a chain of equal terms rounds all sums the same
// way, and 58 in a row lost more than docs/precision.md allows. n equal terms lose at most a third of a unit each. So
// up to 256 taps use chains of 16 and of their sums, more taps chains of 32.
constexpr int kShort = 25;
constexpr int together(int taps) { return taps <= 256 ? 16 : 32; }

// A block computes kFilters x 128 outputs. Each of its 8 warps owns kFilters/8 filters and each lane 4 neighbouring
// pixels, so the weights are broadcast reads and the pixels 16-byte reads of shared memory.
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

    // The pixel whose taps this thread gathers, the same in every step.
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
      // Only the real taps: with a padded tap, 0 x inf would be NaN.
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

    const long long first = n0 + lane * 4;  // this thread's four outputs; they may belong to two images
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
