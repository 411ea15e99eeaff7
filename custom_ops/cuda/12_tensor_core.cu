// Step 12: tensor cores at float32 grade, one input channel.
#include "kernels.h"
#include "tensor_core.h"
#include "tensor_core.cuh"

namespace fops {
namespace {

constexpr int kWarps = 4;
constexpr int kThreads = 32 * kWarps;
constexpr int kChunk = 16;  // pixels a warp makes at a time: two 8-column mma tiles

// Taps are taken in pairs (p, q) and (p, q + 1), one 32-bit register of two halves. An odd K leaves a last pair whose
// second weight is zero: 15 pairs for K = 5, padded to two mma steps of 8 pairs.
__host__ __device__ constexpr int pairs_a_row(int K) { return (K + 1) / 2; }
__host__ __device__ constexpr int steps(int K) { return (K * pairs_a_row(K) + 7) / 8; }

// Words a row of the staged image: 18 more than a multiple of 32, so that the eight pixels and four pairs that a warp
// reads at once, from two neighbouring rows, lie in 32 different banks.
__host__ __device__ constexpr int row_words(int W) { return (W + 13) / 32 * 32 + 18; }

struct Tiling {
  int rows;           // output rows a band
  int bands;          // bands an image
  bool vector;        // 16-byte stores are aligned
  uint32_t inverse_OW, inverse_W;
};

// Stages rows [0, rows) of `source` as words (x[i], x[i+1]) scaled and rounded to half, and with kResidue what the
// rounding left. Returns whether this thread's values were all exact in half.
template <bool kResidue, typename X>
__device__ bool stage(const X* source, int rows, int W, uint32_t inverse_W, float scale, uint32_t* hi, uint32_t* lo) {
  const int row = row_words(W);
  bool exact = true;
#pragma unroll 4
  for (int i = threadIdx.x; i < rows * W; i += kThreads) {
    const int h = divide(i, inverse_W), w = i - h * W;
    const float here = static_cast<float>(source[i]) * scale;
    const float next = w + 1 < W ? static_cast<float>(source[i + 1]) * scale : 0.0f;
    const Split a = split(here), b = split(next);
    hi[h * row + w] = pack(a.hi, b.hi);
    if (kResidue) lo[h * row + w] = pack(a.lo, b.lo);
    exact = exact && fabsf(here) <= kHalfMax && __half2float(a.hi) == here;
  }
  return exact;
}

// sum += weights * pixels, for one chunk.
template <int kTiles, int kSteps>
__device__ void multiply(float (&sum)[kTiles][2][4], const uint32_t (&weights)[kTiles][kSteps][4],
                         const uint32_t* words, const int (&corner)[2], const int (&offset)[2 * kSteps]) {
#pragma unroll
  for (int step = 0; step < kSteps; ++step)
#pragma unroll
    for (int j = 0; j < 2; ++j) {
      const uint32_t b0 = words[corner[j] + offset[2 * step]], b1 = words[corner[j] + offset[2 * step + 1]];
#pragma unroll
      for (int tile = 0; tile < kTiles; ++tile) mma(sum[tile][j], weights[tile][step], b0, b1);
    }
}

// A block stays on its multiprocessor and walks over bands of images. Filters are the rows of the product (16 a tile,
// their weights in registers for the block's life), pixels the columns.
template <int K, int kTiles, bool kHalf, typename X>
__global__ void __launch_bounds__(kThreads, kTiles > 2 ? 4 : 6)
    tensor_core_pixels(Dims d, Tiling tiling, const X* __restrict__ x, const float* __restrict__ k,
                       float* __restrict__ y) {
  constexpr int kSteps = steps(K), kTaps = K * K;
  extern __shared__ uint32_t shared[];
  __shared__ float filter_scale[16 * kTiles], filter_unscale[16 * kTiles];
  __shared__ unsigned scratch;
  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32, g = lane / 4, t = lane % 4;
  const int row = row_words(d.W), staged = (tiling.rows + K - 1) * row;
  uint32_t* hi = shared;
  uint32_t* lo = shared + staged;

  // The padding of the rows is read against zero weights: it must be finite, once and for all.
  for (int i = threadIdx.x; i < 2 * staged; i += kThreads) shared[i] = 0;

  // A scale for every filter, and its weights split into the registers that the mma wants.
  bool finite = true;
  for (int m = threadIdx.x; m < 16 * kTiles; m += kThreads) {
    float largest = 0.0f;
    for (int i = 0; i < kTaps && m < d.M; ++i) {
      const float magnitude = fabsf(k[m * kTaps + i]);
      largest = magnitude > largest ? magnitude : largest;
      finite = finite && magnitude < INFINITY;
    }
    filter_scale[m] = scale_for(largest);
    filter_unscale[m] = 1.0f / filter_scale[m];
  }
  finite = !__syncthreads_or(!finite);

  uint32_t weight_hi[kTiles][kSteps][4], weight_lo[kTiles][kSteps][4];
#pragma unroll
  for (int tile = 0; tile < kTiles; ++tile) {
#pragma unroll
    for (int i = 0; i < 4 * kSteps; ++i) {
      const int m = tile * 16 + g + i % 2 * 8, pair = i / 2 * 4 + t;
      const int p = pair / pairs_a_row(K), q = pair % pairs_a_row(K) * 2;
      const float scale = filter_scale[m];
      const bool real = m < d.M && p < K;
      const Split a = split(real ? k[m * kTaps + p * K + q] * scale : 0.0f);
      const Split b = split(real && q + 1 < K ? k[m * kTaps + p * K + q + 1] * scale : 0.0f);
      weight_hi[tile][i / 4][i % 4] = pack(a.hi, b.hi);
      weight_lo[tile][i / 4][i % 4] = pack(a.lo, b.lo);
    }
  }

  int offset[2 * kSteps];  // of this lane's pairs, from the pixel's corner
#pragma unroll
  for (int i = 0; i < 2 * kSteps; ++i) {
    const int pair = min(i * 4 + t, K * pairs_a_row(K) - 1);
    offset[i] = pair / pairs_a_row(K) * row + pair % pairs_a_row(K) * 2;
  }

  const int plane = d.OH * d.OW;
  for (long long task = blockIdx.x; task < d.B * tiling.bands; task += gridDim.x) {
    const long long image = task / tiling.bands;
    const int h0 = static_cast<int>(task - image * tiling.bands) * tiling.rows;
    const int rows = min(tiling.rows, d.OH - h0), pixels = rows * d.OW;
    const X* source = x + (image * d.H + h0) * d.W;
    float* out = y + image * d.M * plane + h0 * d.OW;

    __syncthreads();  // the band before this one has been read
    float scale = kImageScale;
    bool exact = stage<false>(source, rows + K - 1, d.W, tiling.inverse_W, scale, hi, lo);
    exact = !__syncthreads_or(!exact);  // pixels are: this is all they cost
    if (!exact || !finite) {
      float largest = 0.0f;
      for (int i = threadIdx.x; i < (rows + K - 1) * d.W; i += kThreads) {
        const float magnitude = fabsf(static_cast<float>(source[i]));
        largest = magnitude <= largest ? largest : magnitude;  // a NaN takes over and stays
        if (magnitude != magnitude) break;
      }
      largest = block_max(largest, &scratch);
      if (!finite || largest == INFINITY) {
        direct_band(source - h0 * d.W, k, out - h0 * d.OW, 1, d.H, d.W, d.M, K, h0, rows);
        continue;
      }
      if (largest * scale < kWindowLow || largest * scale > kWindowHigh) scale = scale_for(largest);
      stage<true>(source, rows + K - 1, d.W, tiling.inverse_W, scale, hi, lo);
      __syncthreads();
    }
    const float image_unscale = 1.0f / scale;

    for (int chunk = warp * kChunk; chunk < pixels; chunk += kWarps * kChunk) {
      // Column n of mma tile j is pixel 4 (n / 2) + 2j + n % 2 of the chunk: then a lane's results in both tiles are
      // four neighbouring pixels, one 16-byte store a filter.
      int corner[2];
#pragma unroll
      for (int j = 0; j < 2; ++j) {
        const int pixel = min(chunk + g / 2 * 4 + 2 * j + g % 2, pixels - 1);
        const int h = divide(pixel, tiling.inverse_OW);
        corner[j] = h * row + pixel - h * d.OW;
      }
      float sum[kTiles][2][4] = {};
      // The small products first: the chain of truncated additions stays short and small.
      if (!exact && !kHalf) multiply<kTiles, kSteps>(sum, weight_hi, lo, corner, offset);
      if (!kHalf) multiply<kTiles, kSteps>(sum, weight_lo, hi, corner, offset);
      multiply<kTiles, kSteps>(sum, weight_hi, hi, corner, offset);

      const int first = chunk + 4 * t;
#pragma unroll
      for (int tile = 0; tile < kTiles; ++tile)
#pragma unroll
        for (int half = 0; half < 2; ++half) {
          const int m = tile * 16 + half * 8 + g;
          const float u = filter_unscale[m];
          const float4 v = make_float4(sum[tile][0][2 * half] * u * image_unscale,
                                       sum[tile][0][2 * half + 1] * u * image_unscale,
                                       sum[tile][1][2 * half] * u * image_unscale,
                                       sum[tile][1][2 * half + 1] * u * image_unscale);
          if (m >= d.M || first >= pixels) continue;
          float* to = out + m * plane + first;
          if (tiling.vector) {
            __stcs(reinterpret_cast<float4*>(to), v);
          } else {
            to[0] = v.x;
            if (first + 1 < pixels) to[1] = v.y;
            if (first + 2 < pixels) to[2] = v.z;
            if (first + 3 < pixels) to[3] = v.w;
          }
        }
    }
  }
}

// Bands of about 1,500 outputs: small enough for six blocks' staged images in shared memory, large enough that the
// rows read twice, K - 1 a band, are few.
int band_rows(const fops_conv& c) {
  const int64_t wanted = std::max<int64_t>(1, 1500 / out_w(c));
  const int64_t bands = ceil_div(out_h(c), wanted);
  const int64_t rows = ceil_div(out_h(c), bands);
  return static_cast<int>(rows);
}

template <int K, int kTiles, bool kHalf>
fops_status run(const fops_conv& c, const void* x, const float* k, float* y, cudaStream_t stream) {
  const Dims d = dims(c);
  Tiling tiling;
  tiling.rows = band_rows(c);
  tiling.bands = static_cast<int>(ceil_div(d.OH, tiling.rows));
  tiling.vector = d.OH * d.OW % 4 == 0 && (tiling.bands == 1 || tiling.rows * d.OW % 4 == 0) &&
                  reinterpret_cast<uintptr_t>(y) % 16 == 0;
  tiling.inverse_OW = inverse_of(d.OW);
  tiling.inverse_W = inverse_of(d.W);
  const size_t shared = 2 * sizeof(uint32_t) * (tiling.rows + K - 1) * row_words(d.W);
  return with_input(c, x, [&](auto typed) {
    auto* kernel = tensor_core_pixels<K, kTiles, kHalf, std::remove_cv_t<std::remove_pointer_t<decltype(typed)>>>;
    FOPS_TRY(allow_shared(kernel, shared));
    unsigned grid = 0;
    FOPS_TRY(resident_grid(kernel, kThreads, shared, d.B * tiling.bands, &grid));
    kernel<<<grid, kThreads, shared, stream>>>(d, tiling, typed, k, y);
    return launched("tensor-core");
  });
}

template <bool kHalf>
fops_status run(const fops_conv& c, const void* x, const float* k, float* y, cudaStream_t stream) {
  switch (ceil_div(c.M, 16)) {
    case 1: return run<5, 1, kHalf>(c, x, k, y, stream);
    case 2: return run<5, 2, kHalf>(c, x, k, y, stream);
    case 3: return run<5, 3, kHalf>(c, x, k, y, stream);
    default: return run<5, 4, kHalf>(c, x, k, y, stream);
  }
}

}  // namespace

bool takes_tensor_core_pixels(const fops_conv& c) {
  // W: a band of one row, K staged rows, fits in 48 KB; n / OW by multiplication needs OW >= 2.
  return takes_any(c) && c.C == 1 && c.K == 5 && c.M <= 64 && c.W <= 1024 && out_w(c) >= 2 && c.H <= 1 << 20;
}

fops_status run_tensor_core_pixels(const fops_conv& c, bool half, const void* x, const float* k, float* y,
                                   cudaStream_t stream) {
  return half ? run<true>(c, x, k, y, stream) : run<false>(c, x, k, y, stream);
}

}  // namespace fops
