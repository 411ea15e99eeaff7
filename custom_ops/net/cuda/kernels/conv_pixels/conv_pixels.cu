// Convolution + tanh + 2x2 max pool in one kernel: one input channel, 5x5, up to 64 filters, on the tensor cores.
//
// A convolution without the pool is bound by its stores (fa2017: 1,152 MB). This kernel stores a quarter as many
// values, already as halves if the next layer reads halves. tanh is monotonic, so it can follow the pool: a quarter as
// many tanh are computed.
// Costs: only layers of this kind. Gains: one kernel for three layers. docs/notebook.md lists what was tried.
#include "gpu/band_scale.cuh"
#include "gpu/isa/bulk_copy.cuh"
#include "gpu/isa/halves.cuh"
#include "gpu/isa/tanh.cuh"
#include "gpu/launch.h"
#include "net/cuda/kernels/conv_pixels/layout.cuh"
#include "net/cuda/kernels/conv_pixels/one_output.cuh"
#include "net/cuda/kernels/conv_pixels/products.cuh"
#include "net/cuda/kernels/conv_pixels/staging.cuh"
#include "net/cuda/kernels/conv_pixels/two_outputs.cuh"
#include "net/cuda/kernels/stages.h"

namespace fops {
namespace {

using namespace fused_pixels;

// Computes an image that cannot be split into halves, because it contains an infinity or NaN, or values too far apart.
// Such images are rare, so the function need not be fast. The products of a row of taps are added up first, so that
// chains of additions are short (docs/precision.md).
template <bool kHalves, int kThreads>
__device__ void direct(const Sizes& s, const float* image, const float* k, const Outgoing& to) {
  for (int i = threadIdx.x; i < s.values; i += kThreads) {
    const int m = i / s.outputs, at = i % s.outputs;
    float largest = -INFINITY;
    for (int window = 0; window < 4; ++window) {
      const float* corner = image + (at / s.PW * 2 + window / 2) * s.W + at % s.PW * 2 + window % 2;
      float sum = 0.0f;
      for (int p = 0; p < K; ++p) {
        float row = 0.0f;
        for (int q = 0; q < K; ++q) row = fmaf(corner[p * s.W + q], k[m * kTaps + p * K + q], row);
        sum += row;
      }
      largest = sum > largest || sum != sum ? sum : largest;
      if (sum != sum) break;
    }
    const float y = tanh_scaled(largest) * (kHalves ? kTanhScale : 1);
    if constexpr (kHalves) {
      const Split parts = split(y);
      to.hi[i] = parts.hi, to.lo[i] = parts.lo;
    } else {
      to.floats[i] = y;
    }
  }
}

template <int kThreads>
__device__ inline void copy_out(const Sizes& s, void* to, const void* from, int bytes) {
  if (s.vector_out && kHasTma) {
    if (threadIdx.x == 0) bulk_store_kept(to, from, bytes);
  } else if (s.vector_out) {
    for (int i = threadIdx.x; i < bytes / 16; i += kThreads)
      static_cast<uint4*>(to)[i] = static_cast<const uint4*>(from)[i];
  } else {
    for (int i = threadIdx.x; i < bytes / 2; i += kThreads)
      static_cast<uint16_t*>(to)[i] = static_cast<const uint16_t*>(from)[i];
  }
}

// A persistent block: it keeps the weights in its registers and processes one image after another.
template <class Way, bool kHalves, typename X>
__global__ void __launch_bounds__(32 * Way::kWarps, Way::kBlocks)
    conv_pixels(Sizes s, const X* __restrict__ x, const float* __restrict__ k, const uint4* __restrict__ packed,
                float unscale, void* __restrict__ y, __half* __restrict__ y_lo) {
  // uint8 pixels are multiplied by `unscale` when they are staged, so that sums need no scaling.
  const float pixel_scale = unscale;
  constexpr bool kPixels = sizeof(X) == 1, kTwo = Way::kTwo;  // uint8 pixels are always exact in half precision
  constexpr int kThreads = 32 * Way::kWarps;
  extern __shared__ __align__(16) uint32_t shared[];
  __shared__ unsigned scratch;
  uint32_t *hi = shared, *lo = shared + staged_words(s), *raw = lo;  // uint8 pixels have no low parts
  char* gathered = reinterpret_cast<char*>(lo + (kPixels ? raw_words(s) : staged_words(s)));
  const Outgoing to{reinterpret_cast<float*>(gathered), reinterpret_cast<__half*>(gathered),
                    reinterpret_cast<__half*>(gathered + half_bytes(s))};

  typename Way::Weights weights;
#pragma unroll
  for (int i = 0; i < Way::kFragments; ++i) {
    const uint4 four = __ldg(packed + i * 32 + threadIdx.x % 32);
    weights[i][0] = four.x, weights[i][1] = four.y, weights[i][2] = four.z, weights[i][3] = four.w;
  }
  const Way way(s);

  if constexpr (kPixels) {
    if (blockIdx.x < s.n) fetch<kThreads>(s, x + 1LL * blockIdx.x * s.H * s.W, raw);
    copy_async_wait_all();
    __syncthreads();
  }
  for (long long image = blockIdx.x; image < s.n; image += gridDim.x) {
    const X* source = x + image * s.H * s.W;
    const long long next = image + gridDim.x;
    if constexpr (kPixels) {
      expand<kTwo, kThreads>(s, raw, pixel_scale, hi);
      bulk_wait_read();  // the copies of the previous image's outputs have read `gathered`
      __syncthreads();
      if (next < s.n) fetch<kThreads>(s, x + next * s.H * s.W, raw);  // these copies overlap with the products
      multiply<true, true, kHalves>(way, s, weights, 1.0f, 1.0f, hi, hi, to);
      copy_async_wait_all();  // before bulk_commit: after it, this would also wait for the copies of the outputs
    } else {
      bool good = true, exact = stage<kTwo, kThreads, false>(s, source, kImageScale, hi, lo);
      bulk_wait_read();
      exact = !__syncthreads_or(!exact);
      float rescale = 1.0f / kImageScale;
      if (!exact) {
        const float scale = band_scale<kThreads>(source, s.rows * s.W, kLeastPixel, &scratch);
        good = scale != 0.0f;
        if (good) stage<kTwo, kThreads, true>(s, source, scale, hi, lo);
        rescale = 1.0f / scale;
        __syncthreads();
      }
      if (next < s.n) {  // prefetches the next image into L2 while the current image is multiplied
        prefetch_l2(x + next * s.H * s.W, s.rows * s.W * 4, kThreads);
      }
      if (!good)
        direct<kHalves, kThreads>(s, source, k, to);
      else if (exact)
        multiply<true, false, kHalves>(way, s, weights, unscale * rescale, 1.0f, hi, lo, to);
      else
        multiply<false, false, kHalves>(way, s, weights, unscale, rescale, hi, lo, to);
    }

    bulk_fence();
    __syncthreads();
    if constexpr (kHalves) {
      copy_out<kThreads>(s, static_cast<__half*>(y) + image * s.out_stride, to.hi, s.values * 2);
      copy_out<kThreads>(s, y_lo + image * s.out_stride, to.lo, s.values * 2);
    } else {
      copy_out<kThreads>(s, static_cast<float*>(y) + image * s.out_stride, to.floats, s.values * 4);
    }
    if (s.vector_out && kHasTma)
      bulk_commit();
    else
      __syncthreads();
  }
  bulk_wait_read();  // the block must not end before the copies have read its shared memory
}

template <class Way, bool kHalves, typename X>
fops_status launch(Sizes s, const PixelWeights& weights, const float* k, const Tensor& x, const Tensor& y,
                   cudaStream_t stream) {
  constexpr int kThreads = 32 * Way::kWarps;
  auto* kernel = conv_pixels<Way, kHalves, X>;
  s.vector_in = (sizeof(X) == 1 ? s.H * s.W : s.W) % 4 == 0 &&
                reinterpret_cast<uintptr_t>(x.data) % (4 * sizeof(X)) == 0;
  s.vector_out = s.values * (kHalves ? 2 : 4) % 16 == 0 && reinterpret_cast<uintptr_t>(y.data) % 16 == 0;
  const size_t shared = shared_bytes(s, kHalves, sizeof(X) == 1);
  unsigned grid = 0;
  FOPS_TRY(resident_grid(kernel, kThreads, shared, s.n, &grid));
  kernel<<<grid, kThreads, shared, stream>>>(s, static_cast<const X*>(x.data), k,
                                             reinterpret_cast<const uint4*>(weights.device), weights.unscale, y.data,
                                             y.lo);
  return launched("convolution, tanh and pool");
}

template <class Way>
fops_status run(const Sizes& s, const PixelWeights& weights, const float* k, const Tensor& x, const Tensor& y,
                cudaStream_t stream) {
  const bool halves = y.form == Tensor::Form::halves, pixels = x.form == Tensor::Form::uint8;
  if (halves && pixels) return launch<Way, true, uint8_t>(s, weights, k, x, y, stream);
  if (halves) return launch<Way, true, float>(s, weights, k, x, y, stream);
  if (pixels) return launch<Way, false, uint8_t>(s, weights, k, x, y, stream);
  return launch<Way, false, float>(s, weights, k, x, y, stream);
}

// Uses blocks of eight warps, not four, if an image takes so much shared memory that few blocks fit on an SM.
template <int kTiles>
fops_status run_two(const Sizes& s, const PixelWeights& weights, const float* k, const Tensor& x, const Tensor& y,
                    cudaStream_t stream) {
  if (shared_bytes(s, y.form == Tensor::Form::halves, x.form == Tensor::Form::uint8) > kEveryGpuShared / 2)
    return run<TwoOutputs<kTiles, 8>>(s, weights, k, x, y, stream);
  return run<TwoOutputs<kTiles, 4>>(s, weights, k, x, y, stream);
}

}  // namespace

bool takes_conv_pixels(const Stage& stage) {
  if (stage.kind != Stage::Kind::convolution || stage.K != K || stage.in.C != 1 || stage.out.C > 64 ||
      stage.activation != Activation::tanh || !stage.pool.pairs() || stage.in.H > 1024 || stage.in.W > 1024 ||
      stage.out.W < 2 || stage.out.H < 1)
    return false;
  const Sizes s = sizes_for(stage, true);
  return s.outputs < 65536 && std::max(shared_bytes(s, true, false), shared_bytes(s, false, false)) <= kEveryGpuShared;
}

fops_status run_conv_pixels(const Stage& stage, const PixelWeights& weights, const float* k, int64_t n, const Tensor& x,
                            const Tensor& y, cudaStream_t stream) {
  Sizes s = sizes_for(stage, y.form == Tensor::Form::halves);
  s.n = n;
  const int M = s.M;
  if (two_outputs(M)) {
    switch ((M + 7) / 8) {
      case 1: return run_two<1>(s, weights, k, x, y, stream);
      case 2: return run_two<2>(s, weights, k, x, y, stream);
      case 3: return run_two<3>(s, weights, k, x, y, stream);
      default: return run_two<4>(s, weights, k, x, y, stream);
    }
  }
  switch ((M + 7) / 8) {
    case 5: return run<OneOutput<2, true>>(s, weights, k, x, y, stream);
    case 6: return run<OneOutput<3, false>>(s, weights, k, x, y, stream);
    case 7: return run<OneOutput<3, true>>(s, weights, k, x, y, stream);
    default: return run<OneOutput<4, false>>(s, weights, k, x, y, stream);
  }
}

}  // namespace fops
