// Step 9: a first kernel unrolls the input (im2col) into a matrix u in global memory; a second kernel computes a tiled
// matrix product.
//
//               outputs ->                      k (50 x 25)  x  u (25 x 576)  =  y (50 x 576)
//   u:  tap 0   x x x x x x        A column of u is the pixels of one window. A pixel is in up to 25 places of u.
//       tap 1   x x x x x x        The product is computed in tiles of 32 x 32, with one thread per output.
//       ...
//
// Costs: up to K x K copies of each pixel. For fa2017 u is 576 MB, which are written once and read twice (50 filters
// are two tiles), while x is 31 MB. A multiply-add needs two reads of shared memory. Gains: supports any shape by
// well-known algorithms.
#include "conv/cuda/kernels.h"

namespace fops {
namespace {

constexpr int kTile = 32;
constexpr int kThreads = 256;
constexpr long long kWorkspace = 256LL << 20;  // maximum bytes of unrolled input at a time, unless one image needs more

// Computes u[b][tap][pixel] = x[b][c][h + p][w + q] with tap = (c, p, q) and pixel = (h, w).
template <typename X>
__global__ void im2col(Dims d, long long images, const X* __restrict__ x, float* __restrict__ u) {
  const long long plane = 1LL * d.OH * d.OW;
  const int taps = d.C * d.K * d.K;
  const long long total = images * taps * plane;
  for (long long i = blockIdx.x * 1LL * kThreads + threadIdx.x; i < total; i += 1LL * gridDim.x * kThreads) {
    const long long row = i / plane, pixel = i % plane, b = row / taps;
    const int tap = static_cast<int>(row % taps), q = tap % d.K, p = tap / d.K % d.K, c = tap / (d.K * d.K);
    u[i] = static_cast<float>(x[((b * d.C + c) * d.H + pixel / d.OW + p) * d.W + pixel % d.OW + q]);
  }
}

// Computes y[b] (M x plane) = k (M x taps) times u[b] (taps x plane), in 32 x 32 tiles with one output per thread.
__global__ void tiled_product(long long images, int M, int taps, long long plane, const float* __restrict__ k,
                              const float* __restrict__ u, float* __restrict__ y) {
  __shared__ float a[kTile][kTile], b[kTile][kTile];
  const long long tiles_m = ceil_div(M, kTile), tiles_n = ceil_div(plane, kTile);
  for (long long task = blockIdx.x; task < images * tiles_m * tiles_n; task += gridDim.x) {
    const long long image = task / (tiles_m * tiles_n);
    const long long m = task / tiles_n % tiles_m * kTile + threadIdx.y, n = task % tiles_n * kTile + threadIdx.x;
    float sum = 0.0f;
    for (int t = 0; t < taps; t += kTile) {
      const int ta = t + threadIdx.x, tb = t + threadIdx.y;
      a[threadIdx.y][threadIdx.x] = m < M && ta < taps ? k[m * taps + ta] : 0.0f;
      b[threadIdx.y][threadIdx.x] = n < plane && tb < taps ? u[(image * taps + tb) * plane + n] : 0.0f;
      __syncthreads();
      // Excludes padding taps: 0 times an infinity would be NaN.
      const int last = min(kTile, taps - t);
      for (int i = 0; i < last; ++i) sum += a[threadIdx.y][i] * b[i][threadIdx.x];
      __syncthreads();
    }
    if (m < M && n < plane) y[(image * M + m) * plane + n] = sum;
  }
}

template <typename X>
fops_status slices(const Dims& d, const X* x, const float* k, float* y, float* u, long long slice,
                   cudaStream_t stream) {
  const long long plane = 1LL * d.OH * d.OW;
  const int taps = d.C * d.K * d.K;
  for (long long b = 0; b < d.B; b += slice) {
    const long long images = std::min(slice, d.B - b);
    im2col<<<grid_for(ceil_div(images * taps * plane, kThreads)), kThreads, 0, stream>>>(
        d, images, x + b * d.C * d.H * d.W, u);
    FOPS_TRY(launched("im2col"));
    tiled_product<<<grid_for(images * ceil_div(d.M, kTile) * ceil_div(plane, kTile)), dim3(kTile, kTile), 0, stream>>>(
        images, d.M, taps, plane, k, u, y + b * d.M * plane);
    FOPS_TRY(launched("im2col-gemm"));
  }
  return FOPS_OK;
}

}  // namespace

fops_status run_im2col_gemm(const fops_conv& c, const void* x, const float* k, float* y, void* stream_) {
  const auto stream = static_cast<cudaStream_t>(stream_);
  const Dims d = dims(c);
  const long long bytes = sizeof(float) * 1LL * d.C * d.K * d.K * d.OH * d.OW;  // bytes of one unrolled image
  const long long slice = std::min(d.B, std::max(1LL, kWorkspace / bytes));
  float* u = nullptr;
  FOPS_CUDA(cudaMallocAsync(reinterpret_cast<void**>(&u), slice * bytes, stream));
  const fops_status status =
      with_input(c, x, [&](auto typed) { return slices(d, typed, k, y, u, slice, stream); });
  const cudaError_t freed = cudaFreeAsync(u, stream);
  if (status != FOPS_OK) return status;
  FOPS_CUDA(freed);
  return FOPS_OK;
}

}  // namespace fops
