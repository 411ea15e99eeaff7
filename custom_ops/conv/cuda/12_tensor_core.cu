// Step 12: tensor cores with float32 accuracy. The sums are a matrix product, (filters x taps) times (taps x outputs).
//
//   value   = high part + low part, two half-precision values ("halves") that keep 22 or more of a float's 24 bits
//   product = high x high + low x high + high x low + low x low      each exact, added in float32
//   one mma       8 filters, high        pixels under            sums with the high parts of 8 filters
//   16 x 16 x 8   8 filters, low    x    8 outputs          =    sums with the low parts of the same filters
//                 16 taps each           16 taps each            for 8 outputs each
//
// Two mma per 16 taps, with the pixels' high parts and with their low parts, give all four products. Lane 4g + t of a
// warp has the accumulators of filter g, high and low part, for outputs 2t and 2t + 1.
// Costs: four products instead of one, a scale for every image, and a layout that the instruction requires.
// Gains: tensor cores multiply halves much faster than the float32 pipes multiply floats (docs/kernels.md).
#include "conv/cuda/kernels.h"
#include "conv/hopper/fallback.cuh"
#include "conv/hopper/table.h"
#include "gpu/band_scale.cuh"
#include "gpu/isa/mma.cuh"

namespace fops {
namespace {

// `auto` does not use this kernel but the library in conv/hopper/, which applies the same idea to many more shapes.

constexpr int kThreads = 256, kWarps = kThreads / 32;
constexpr int kFilters = 8, kOutputs = 8;  // filters and outputs per tile

// Two neighbouring taps of a row are a pair, which is two halves in a register. With an odd K, the second weight of a
// row's last pair is zero. Pairs beyond the filter's last row, in the last step, are zeros.
__host__ __device__ constexpr int pairs_per_row(int K) { return (K + 1) / 2; }
__host__ __device__ constexpr int steps(int K) { return (K * pairs_per_row(K) + 7) / 8; }

// Returns a lane's four registers of operand A for one step: filter m, t = lane % 4 (see the lane map in
// gpu/isa/mma.cuh).
template <int K>
__device__ uint4 weights_of(const Dims& d, const float* k, float scale, int m, int step, int t) {
  SplitPair parts[2];
  for (int i = 0; i < 2; ++i) {
    const int pair = 8 * step + 4 * i + t, p = pair / pairs_per_row(K), q = pair % pairs_per_row(K) * 2;
    const float* row = k + (m * K + p) * K;
    const bool real = m < d.M && p < K;
    parts[i] = split_pair(real ? row[q] * scale : 0.0f, real && q + 1 < K ? row[q + 1] * scale : 0.0f);
  }
  return make_uint4(parts[0].hi, parts[0].lo, parts[1].hi, parts[1].lo);
}

template <int K, typename X>
__global__ void __launch_bounds__(kThreads) tensor_core_tile(Dims d, const X* __restrict__ x,
                                                             const float* __restrict__ k, float* __restrict__ y) {
  constexpr int kSteps = steps(K);
  extern __shared__ __align__(16) uint32_t shared[];
  __shared__ unsigned scratch;
  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32, g = lane / 4, t = lane % 4;
  const int pixels = d.H * d.W, plane = d.OH * d.OW, tiles = (d.M + kFilters - 1) / kFilters;
  uint4* weights = reinterpret_cast<uint4*>(shared);                     // [tile][step][lane]
  uint32_t* high = shared + 4 * tiles * kSteps * 32;                     // [H][W]: a pixel and its right neighbour
  uint32_t* low = high + pixels;                                         // [H][W]: their low parts

  // A pixel or weight far below the image's or the layer's largest, respectively, cannot be split well
  // (docs/precision.md).
  const float minimum = min_scaled(K * K);
  const WeightScale by = weight_scale(k, d.M * K * K, minimum, kThreads, &scratch);
  for (int i = threadIdx.x; i < tiles * kSteps * 32; i += kThreads)
    weights[i] = weights_of<K>(d, k, by.scale, i / 32 / kSteps * kFilters + i % 32 / 4, i / 32 % kSteps, i % 4);

  int offset[2 * kSteps];  // offsets of this lane's pairs of pixels from an output's upper left pixel
#pragma unroll
  for (int i = 0; i < 2 * kSteps; ++i) {
    const int pair = min(4 * i + t, K * pairs_per_row(K) - 1);
    offset[i] = pair / pairs_per_row(K) * d.W + pair % pairs_per_row(K) * 2;
  }

  for (long long b = blockIdx.x; b < d.B; b += gridDim.x) {
    const X* image = x + b * pixels;
    float* out = y + b * d.M * plane;
    const float scale = by.fits ? band_scale<kThreads>(image, pixels, minimum, &scratch) : 0.0f;
    if (scale == 0.0f) {
      fallback_image_band(image, k, out, 1, d.H, d.W, d.M, K, 0, d.OH);
      continue;
    }
    __syncthreads();  // waits until all threads have read the previous image
    for (int i = threadIdx.x; i < pixels; i += kThreads) {
      const float next = i + 1 < pixels ? static_cast<float>(image[i + 1]) : 0.0f;
      const SplitPair parts = split_pair(static_cast<float>(image[i]) * scale, next * scale);
      high[i] = parts.hi, low[i] = parts.lo;
    }
    __syncthreads();

    const float unscale = inverse_power(scale) * inverse_power(by.scale);
    for (int first = warp * kOutputs; first < plane; first += kWarps * kOutputs) {
      const int column = min(first + g, plane - 1), corner = column / d.OW * d.W + column % d.OW;
      uint32_t pixels_high[2 * kSteps], pixels_low[2 * kSteps];  // this lane's elements of column g of operand B
#pragma unroll
      for (int i = 0; i < 2 * kSteps; ++i)
        pixels_high[i] = high[corner + offset[i]], pixels_low[i] = low[corner + offset[i]];

      for (int tile = 0; tile < tiles; ++tile) {
        float sum[4] = {}, small[4] = {};  // sums of products with the pixels' high parts; with their low parts
#pragma unroll
        for (int step = 0; step < kSteps; ++step) {
          const uint4 w = weights[(tile * kSteps + step) * 32 + lane];
          const uint32_t a[4] = {w.x, w.y, w.z, w.w};
          mma(sum, a, pixels_high[2 * step], pixels_high[2 * step + 1]);
          mma(small, a, pixels_low[2 * step], pixels_low[2 * step + 1]);
        }
        const int m = tile * kFilters + g;
#pragma unroll
        for (int e = 0; e < 2; ++e) {  // accumulators 0 and 1: the weights' high parts; 2 and 3: their low parts
          const float lows = sum[e + 2] + small[e] + small[e + 2] / kLowScale;
          if (m < d.M && first + 2 * t + e < plane)
            out[m * plane + first + 2 * t + e] = (sum[e] + lows / kLowScale) * unscale;
        }
      }
    }
  }
}

size_t shared_bytes(const fops_conv& c) {
  return 16 * ceil_div(c.M, kFilters) * steps(static_cast<int>(c.K)) * 32 + sizeof(uint32_t) * 2 * c.H * c.W;
}

template <int K>
fops_status run(const fops_conv& c, const void* x, const float* k, float* y, void* stream) {
  FOPS_TRY(hopper::check_tensor_cores("tensor-core-tile"));
  const size_t shared = shared_bytes(c);
  return with_input(c, x, [&](auto typed) {
    auto* kernel = tensor_core_tile<K, std::remove_cv_t<std::remove_pointer_t<decltype(typed)>>>;
    unsigned grid = 0;
    FOPS_TRY(resident_grid(kernel, kThreads, shared, c.B, &grid));
    kernel<<<grid, kThreads, shared, static_cast<cudaStream_t>(stream)>>>(dims(c), typed, k, y);
    return launched("tensor-core-tile");
  });
}

}  // namespace

bool takes_tensor_core_tile(const fops_conv& c) {
  return takes_any(c) && c.C == 1 && (c.K == 3 || c.K == 5 || c.K == 7) && image_floats(c) <= 12000 && c.M <= 512 &&
         output_floats(c) <= INT_MAX && shared_bytes(c) <= 96 * 1024;
}

fops_status run_tensor_core_tile(const fops_conv& c, const void* x, const float* k, float* y, void* stream) {
  switch (c.K) {
    case 3: return run<3>(c, x, k, y, stream);
    case 5: return run<5>(c, x, k, y, stream);
    default: return run<7>(c, x, k, y, stream);
  }
}

}  // namespace fops
