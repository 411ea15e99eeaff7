// Step 12, several input channels: both operands split, an implicit GEMM out of shared memory.
#include "kernels.h"
#include "tensor_core.h"
#include "tensor_core.cuh"

namespace fops {
namespace {

constexpr int kWarps = 8;
constexpr int kThreads = 32 * kWarps;
constexpr int kShared = 97 * 1024;

// The product's depth runs over pairs of channels: pair = ((p * K) + q) * ceil(C / 2) + c / 2, so that the pairs of a
// row of taps lie one after the other in an image staged with its channels innermost. Eight pairs are an mma step;
// lane t of a quad takes pairs 8 step + 2t and the next.
__host__ __device__ constexpr int channel_pairs(int C) { return (C + 1) / 2; }
__host__ __device__ constexpr int steps(int C, int K) { return (K * K * channel_pairs(C) + 7) / 8; }

struct Tiling {
  int rows;   // output rows a band
  int bands;  // bands an image
  uint32_t inverse_OW;
};

// Pixel tiles (16 outputs) a warp makes at once: as many as 128 registers hold beside the operands.
__host__ __device__ constexpr int pixel_tiles(int filter_tiles) {
  constexpr int kTilesFor[] = {0, 8, 6, 7, 4};
  return kTilesFor[filter_tiles];
}

// Stages channels pairwise: entry (pixel, pair) = { hi of both channels, lo of both }. Returns whether every value lies
// under the window's top, and through *big whether one of them lies above its foot.
__device__ bool stage(const float* source, int C, int rows, int H, int W, float scale, uint2* staged, bool* big) {
  const int pairs = channel_pairs(C), pixels = rows * W;
  bool fits = true;
  for (int pair = 0; pair < pairs; ++pair) {
    const float* even = source + 2LL * pair * H * W;
    const float* odd = 2 * pair + 1 < C ? even + H * W : nullptr;
#pragma unroll 5
    for (int i = threadIdx.x; i < pixels; i += kThreads) {
      const float a = even[i] * scale, b = odd != nullptr ? odd[i] * scale : 0.0f;
      const float largest = fmaxf(fabsf(a), fabsf(b));
      fits = fits && fabsf(a) <= kWindowHigh && fabsf(b) <= kWindowHigh;  // false for NaN
      *big = *big || largest >= kWindowLow;
      const Split first = split(a), second = split(b);
      staged[i * pairs + pair] = make_uint2(pack(first.hi, second.hi), pack(first.lo, second.lo));
    }
  }
  return fits;
}

// Pixels are the rows of the product, filters (8 a tile) its columns. A block stays on its multiprocessor with all
// weights split in shared memory and walks over bands of images.
template <int kTiles, bool kAligned, bool kHalf>
__global__ void __launch_bounds__(kThreads, 2)
    tensor_core_channels(Dims d, Tiling tiling, const float* __restrict__ x, const float* __restrict__ k,
                         float* __restrict__ y) {
  constexpr int kPixelTiles = pixel_tiles(kTiles);
  extern __shared__ __align__(16) uint4 shared[];
  __shared__ float filter_scale[8 * kTiles], filter_unscale[8 * kTiles];
  __shared__ unsigned scratch;
  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32, g = lane / 4, t = lane % 4;
  const int pairs = channel_pairs(d.C), taps = d.C * d.K * d.K, depth = steps(d.C, d.K);
  uint4* weights = shared;                                               // [step][filter tile][lane]
  int2* offsets = reinterpret_cast<int2*>(shared + depth * kTiles * 32);  // [step][t]: entries from a pixel's corner
  uint2* staged = reinterpret_cast<uint2*>(offsets + depth * 4);

  // One warp a filter: its scale.
  bool finite = true;
  for (int m = warp; m < 8 * kTiles; m += kWarps) {
    float largest = 0.0f;
    for (int i = lane; i < taps && m < d.M; i += 32) {
      const float magnitude = fabsf(k[m * taps + i]);
      largest = fmaxf(largest, magnitude);
      finite = finite && magnitude < INFINITY;
    }
    for (int o = 16; o > 0; o /= 2) largest = fmaxf(largest, __shfl_xor_sync(0xffffffffu, largest, o));
    if (lane == 0) {
      filter_scale[m] = scale_for(largest);
      filter_unscale[m] = 1.0f / filter_scale[m];
    }
  }
  finite = !__syncthreads_or(!finite);

  // The weights as mma operands: { hi b0, hi b1, lo b0, lo b1 } of column g.
  for (int i = threadIdx.x; i < depth * kTiles * 32; i += kThreads) {
    const int at = i % 32, tile = i / 32 % kTiles, step = i / (32 * kTiles), m = tile * 8 + at / 4;
    uint32_t hi[2], lo[2];
    for (int j = 0; j < 2; ++j) {
      const int pair = 8 * step + 2 * (at % 4) + j, tap = pair / pairs, c = pair % pairs * 2;
      const bool real = m < d.M && tap < d.K * d.K;
      const float* filter = k + m * taps + tap;
      const Split a = split(real ? filter[c * d.K * d.K] * filter_scale[m] : 0.0f);
      const Split b = split(real && c + 1 < d.C ? filter[(c + 1) * d.K * d.K] * filter_scale[m] : 0.0f);
      hi[j] = pack(a.hi, b.hi);
      lo[j] = pack(a.lo, b.lo);
    }
    weights[i] = make_uint4(hi[0], hi[1], lo[0], lo[1]);
  }
  for (int i = threadIdx.x; i < depth * 4; i += kThreads) {
    int at[2];
    for (int j = 0; j < 2; ++j) {  // past the last tap: any pixel that is staged, against zero weights
      const int pair = 2 * i + j, tap = pair / pairs;
      at[j] = tap < d.K * d.K ? (tap / d.K * d.W + tap % d.K) * pairs + pair % pairs : 0;
    }
    offsets[i] = make_int2(at[0], at[1]);
  }

  const int plane = d.OH * d.OW;
  const long long tasks = d.B * tiling.bands;
  for (long long task = blockIdx.x; task < tasks; task += gridDim.x) {
    const long long image = task / tiling.bands;
    const int h0 = static_cast<int>(task - image * tiling.bands) * tiling.rows;
    const int rows = min(tiling.rows, d.OH - h0), pixels = rows * d.OW;
    const float* source = x + (image * d.C * d.H + h0) * d.W;
    float* out = y + image * d.M * plane + h0 * d.OW;

    __syncthreads();  // the band before this one has been read
    float scale = kImageScale;
    bool big = false;
    const bool fits = stage(source, d.C, rows + d.K - 1, d.H, d.W, scale, staged, &big);
    const bool all_fit = !__syncthreads_or(!fits), some_big = __syncthreads_or(big);
    if (!all_fit || !some_big || !finite) {
      float largest = 0.0f;
      for (int i = threadIdx.x; i < d.C * (rows + d.K - 1) * d.W; i += kThreads) {
        const int c = i / ((rows + d.K - 1) * d.W);
        const float magnitude = fabsf(source[1LL * c * d.H * d.W + i - c * (rows + d.K - 1) * d.W]);
        largest = magnitude <= largest ? largest : magnitude;  // a NaN takes over and stays
        if (magnitude != magnitude) break;
      }
      largest = block_max(largest, &scratch);
      if (!finite || largest == INFINITY) {
        direct_band(source - h0 * d.W, k, out - h0 * d.OW, d.C, d.H, d.W, d.M, d.K, h0, rows);
        continue;
      }
      scale = scale_for(largest);
      stage(source, d.C, rows + d.K - 1, d.H, d.W, scale, staged, &big);
      __syncthreads();
    }
    const float image_unscale = 1.0f / scale;

    // The next image on its way into L2 while this one is multiplied: its staging then waits for L2 alone.
    if (task + gridDim.x < tasks && tiling.bands == 1) {
      const char* next = reinterpret_cast<const char*>(source + 1LL * gridDim.x * d.C * d.H * d.W);
      for (int i = threadIdx.x * 128; i < d.C * d.H * d.W * 4; i += kThreads * 128)
        asm volatile("prefetch.global.L2 [%0];" ::"l"(next + i));
    }

    for (int first = warp; first * 16 < pixels; first += kWarps * kPixelTiles) {
      int corner[kPixelTiles][2];  // of rows g and g + 8 of each pixel tile
#pragma unroll
      for (int i = 0; i < kPixelTiles; ++i)
#pragma unroll
        for (int j = 0; j < 2; ++j) {
          const int pixel = min((first + i * kWarps) * 16 + g + 8 * j, pixels - 1);
          const int h = divide(pixel, tiling.inverse_OW);
          corner[i][j] = (h * d.W + pixel - h * d.OW) * pairs;
        }
      float sum[kPixelTiles][kTiles][4] = {};
      for (int step = 0; step < depth; ++step) {
        const int2 offset = offsets[step * 4 + t];
        uint4 w[kTiles];
#pragma unroll
        for (int tile = 0; tile < kTiles; ++tile) w[tile] = weights[(step * kTiles + tile) * 32 + lane];
#pragma unroll
        for (int i = 0; i < kPixelTiles; ++i) {
          uint32_t hi[4], lo[4];
#pragma unroll
          for (int j = 0; j < 2; ++j) {
            uint4 v;
            if (kAligned) {  // both pairs in one 16-byte read
              v = *reinterpret_cast<const uint4*>(staged + corner[i][j] + offset.x);
            } else {
              const uint2 a = staged[corner[i][j] + offset.x], b = staged[corner[i][j] + offset.y];
              v = make_uint4(a.x, a.y, b.x, b.y);
            }
            hi[j] = v.x, lo[j] = v.y, hi[j + 2] = v.z, lo[j + 2] = v.w;
          }
          if (!kHalf) {
#pragma unroll
            for (int tile = 0; tile < kTiles; ++tile) mma(sum[i][tile], lo, w[tile].x, w[tile].y);
#pragma unroll
            for (int tile = 0; tile < kTiles; ++tile) mma(sum[i][tile], hi, w[tile].z, w[tile].w);
          }
#pragma unroll
          for (int tile = 0; tile < kTiles; ++tile) mma(sum[i][tile], hi, w[tile].x, w[tile].y);
        }
      }
#pragma unroll
      for (int i = 0; i < kPixelTiles; ++i)
#pragma unroll
        for (int tile = 0; tile < kTiles; ++tile)
#pragma unroll
          for (int e = 0; e < 4; ++e) {
            const int pixel = (first + i * kWarps) * 16 + g + e / 2 * 8, m = tile * 8 + 2 * t + e % 2;
            if (pixel < pixels && m < d.M)
              out[m * plane + pixel] = sum[i][tile][e] * filter_unscale[m] * image_unscale;
          }
    }
  }
}

size_t shared_bytes(const fops_conv& c, int64_t rows) {
  const int64_t depth = steps(static_cast<int>(c.C), static_cast<int>(c.K)), tiles = ceil_div(c.M, 8);
  return depth * tiles * 32 * 16 + depth * 4 * 8 + (rows + c.K - 1) * c.W * channel_pairs(static_cast<int>(c.C)) * 8;
}

// Rows a band: all of them where that fits in 97 KB, which every GPU from sm_80 on but sm_86 and sm_89 gives to two
// blocks at a time and those to one; otherwise as few bands as fit.
int band_rows(const fops_conv& c) {
  int64_t bands = 1;
  while (bands < out_h(c) && shared_bytes(c, ceil_div(out_h(c), bands)) > kShared) ++bands;
  return static_cast<int>(ceil_div(out_h(c), bands));
}

template <int kTiles, bool kHalf>
fops_status run(const fops_conv& c, const float* x, const float* k, float* y, cudaStream_t stream) {
  const Dims d = dims(c);
  Tiling tiling;
  tiling.rows = band_rows(c);
  tiling.bands = static_cast<int>(ceil_div(d.OH, tiling.rows));
  tiling.inverse_OW = inverse_of(d.OW);
  const size_t shared = shared_bytes(c, tiling.rows);
  auto* kernel = c.C % 4 == 0 ? tensor_core_channels<kTiles, true, kHalf> : tensor_core_channels<kTiles, false, kHalf>;
  FOPS_TRY(allow_shared(kernel, shared));
  unsigned grid = 0;
  FOPS_TRY(resident_grid(kernel, kThreads, shared, d.B * tiling.bands, &grid));
  kernel<<<grid, kThreads, shared, stream>>>(d, tiling, x, k, y);
  return launched("tensor-core");
}

template <bool kHalf>
fops_status run(const fops_conv& c, const float* x, const float* k, float* y, cudaStream_t stream) {
  switch (ceil_div(c.M, 8)) {
    case 1: return run<1, kHalf>(c, x, k, y, stream);
    case 2: return run<2, kHalf>(c, x, k, y, stream);
    case 3: return run<3, kHalf>(c, x, k, y, stream);
    default: return run<4, kHalf>(c, x, k, y, stream);
  }
}

}  // namespace

bool takes_tensor_core_channels(const fops_conv& c) {
  return takes_any(c) && c.x_type == FOPS_FLOAT32 && c.C > 1 && c.C <= 64 && c.M <= 32 && c.K <= 7 && c.H <= 1024 &&
         c.W <= 1024 && out_w(c) >= 2 && shared_bytes(c, 1) <= kShared && out_w(c) * band_rows(c) < 65536;
}

fops_status run_tensor_core_channels(const fops_conv& c, bool half, const void* x, const float* k, float* y,
                                     cudaStream_t stream) {
  const float* input = static_cast<const float*>(x);
  return half ? run<true>(c, input, k, y, stream) : run<false>(c, input, k, y, stream);
}

}  // namespace fops
