// Several input channels: an implicit GEMM from shared memory with both operands split.
//
//   activation x weight = high x high + high x low + low x high        three products of halves, float32 sums
//
// Activations are not exact in half precision, so both operands are split. A band of an image is split once for all
// filters and taps. With 24 filters, a 16-byte read of it is the operand of five mma instructions.
// Costs: three times as many products, and the padding of filters to groups of eight.
// Gains: the tensor cores' rate; docs/notebook.md lists what was tried.
#include "conv/hopper/variants/channel_quads.cuh"

#include "conv/hopper/fallback.cuh"
#include "conv/hopper/variants.h"
#include "gpu/band_scale.cuh"
#include "gpu/divide.cuh"
#include "gpu/isa/halves.cuh"
#include "gpu/isa/mma.cuh"
#include "gpu/largest.cuh"

namespace fops {
namespace {

using namespace channel_quads;

// The lane map. One mma: D (16 x 8) += A (16 x 16) x B (16 x 8). Lane 4g + t, g = 0..7, t = 0..3, holds
//
//   B: quad t of the pixel of column g         |  c0 c1  |  c2 c3  |  c0 c1  |  c2 c3  |    one 16-byte read
//   (four channels of one tap, mostly)         |   high  |   high  |   low   |   low   |
//                                                 b0         b1       b0        b1
//                                              `- first operand -'  `- second operand -'
//   A: quad t of rows g and g + 8              a0: row g, c0 c1     a2: row g, c2 c3        one 16-byte read
//                                              a1: row g + 8        a3: row g + 8
//   D: rows g (d0 d1), g + 8 (d2 d3), columns 2t and 2t + 1
//
//   rows of A, 24 filters in groups of 8:      tile 0      tile 1      tile 2
//                                    rows 0-7  high of 0   high of 2   low of 1       ("high of 0": the high parts of
//                                    rows 8-15 high of 1   low of 0    low of 2       group 0's weights)

// Filters are the rows of the product, in groups of eight: first the high parts of all groups, then their low parts,
// two groups per mma tile. All tiles are multiplied with the pixels' high parts, and tiles that contain high parts of
// weights also with the pixels' low parts. Returns the number of these tiles.
__host__ __device__ constexpr int tiles_with_high(int groups) { return (groups + 1) / 2; }

struct Tiling {
  int rows;   // output rows per band
  int bands;  // bands per image
  int chain;  // maximum number of steps per chain
  uint32_t inverse_OW;
};

// Returns the maximum number of steps per chain, which the tensor cores add up before an ordinary addition takes over
// the sum. mma.sync adds 16 products in two groups, and truncates each sum toward zero. So a chain of s steps with
// terms of one sign loses up to 2 s + 1 units of 2^-24, and the omitted products of two low parts up to 4. The bound
// allows 4 + sqrt(products). 125 equal products in one chain of 8 steps lost 15.7 units, of 15.2 allowed; 100 equal
// products in chains of 6 lost 1.1 times the bound.
constexpr int max_chain(int64_t products) { return products >= 169 ? 6 : products >= 121 ? 5 : products >= 81 ? 4 : 3; }

// A persistent block: it has all weights, split, in shared memory, and processes one band after another. Pixels are the
// columns of the product. kLong: whether there are more steps than a chain may have.
template <int kGroups, bool kHalf, bool kLong>
__global__ void __launch_bounds__(32 * max_warps(kGroups), min_blocks(kGroups))
    tensor_core_channel_quads(Dims d, Tiling tiling, bool vector, const float* __restrict__ x,
                              const float* __restrict__ k, float* __restrict__ y) {
  constexpr int kColumns = columns(kGroups), kChunk = chunk_pixels(kGroups), kStride = outgoing_stride(kGroups);
  constexpr int kHigh = tiles_with_high(kGroups), kTiles = kHalf ? kHigh : kGroups;
  extern __shared__ __align__(16) uint4 shared[];
  __shared__ unsigned scratch;
  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32, g = lane / 4, t = lane % 4;
  const int threads = blockDim.x, warps = threads / 32;
  const int entry_stride = (tiling.rows + d.K - 1) * d.W, taps = d.C * d.K * d.K, depth = steps(d.C, d.K);
  uint4* weights = shared;  // [step][tile][lane]
  float* outgoing = reinterpret_cast<float*>(shared + depth * kGroups * 32) + warp * 8 * kGroups * kStride;
  uint4* staged = shared + depth * kGroups * 32 + warps * 8 * kGroups * kStride / 4;  // [entry][pixel]
  // [quad]: byte offset from a window's first pixel. Two more steps follow, which the loop loads but does not use.
  int* offsets = reinterpret_cast<int*>(staged + entries(d.C) * entry_stride);

  const float minimum = kHalf ? 0.0f : min_scaled(static_cast<float>(taps));
  const auto [filter_scale, finite] = weight_scale(k, d.M * taps, minimum, threads, &scratch);
  const float filter_unscale = 1.0f / filter_scale;

  // Stores the weights as operands A of the mma: register 2j + r of a lane is row g + 8 r, pair 2t + j.
  for (int i = threadIdx.x; i < depth * kGroups * 32; i += threads) {
    const int at = i % 32, tile = i / 32 % kGroups, step = i / (32 * kGroups);
    uint32_t registers[4];
    for (int e = 0; e < 4; ++e) {
      const int group = 2 * tile + e % 2, m = group % kGroups * 8 + at / 4;
      const Quad quad = quad_at(4 * step + at % 4, d.C, d.K);
      // The weights of word e / 2 of the quad: two channels of a tap; in a `rest` quad, the last channels of tap e / 2.
      const int q = quad.q + (quad.rest ? e / 2 : 0), c = 4 * quad.entry + (quad.rest ? 0 : e / 2 * 2);
      const bool real = m < d.M && quad.p < d.K && q < d.K;
      const float* filter = k + (m * d.C + c) * d.K * d.K + quad.p * d.K + q;
      const Split a = split_enlarged(real && c < d.C ? filter[0] * filter_scale : 0.0f);
      const Split b = split_enlarged(real && c + 1 < d.C ? filter[d.K * d.K] * filter_scale : 0.0f);
      registers[e] = group < kGroups ? pack(a.hi, b.hi) : pack(a.lo, b.lo);
    }
    weights[i] = make_uint4(registers[0], registers[1], registers[2], registers[3]);
  }
  for (int i = threadIdx.x; i < (depth + 2) * 4;
       i += threads) {  // past the last quad 0, because weights are zero there
    const Quad quad = quad_at(i, d.C, d.K);
    offsets[i] = i < quads(d.C, d.K) ? 16 * (quad.entry * entry_stride + quad.p * d.W + quad.q) : 0;
  }

  const int plane = d.OH * d.OW;
  const long long tasks = d.B * tiling.bands;
  for (long long task = blockIdx.x; task < tasks; task += gridDim.x) {
    const long long image = task / tiling.bands;
    const int h0 = static_cast<int>(task - image * tiling.bands) * tiling.rows;
    const int rows = min(tiling.rows, d.OH - h0), pixels = rows * d.OW, staged_pixels = (rows + d.K - 1) * d.W;
    const float* source = x + (image * d.C * d.H + h0) * d.W;
    float* out = y + image * d.M * plane + h0 * d.OW;

    __syncthreads();  // waits until all threads have read the previous band
    float scale = kImageScale;
    Seen seen = stage(source, d.C, staged_pixels, d.H * d.W, scale, staged, entry_stride);
    const bool high = __syncthreads_or(seen.top > __half_as_ushort(__float2half_rn(kWindowHigh)) ||
                                       (!kHalf && seen.smallest < nonzero_bits(minimum / scale)));
    const bool low = !__syncthreads_or(seen.top >= __half_as_ushort(__float2half_rn(kWindowLow)));
    if (high || low || !finite) {
      float largest = 0.0f;
      for (int c = 0; c < d.C; ++c)
        for (int i = threadIdx.x; i < staged_pixels; i += threads) largest = larger(largest, source[c * d.H * d.W + i]);
      largest = block_max(largest, &scratch);
      scale = scale_for(largest);
      const bool small = __syncthreads_or(!kHalf && seen.smallest < nonzero_bits(minimum / scale));
      if (!finite || !(largest < kLargestScaled) || small) {
        fallback_image_band(source - h0 * d.W, k, out - h0 * d.OW, d.C, d.H, d.W, d.M, d.K, h0, rows);
        continue;
      }
      stage(source, d.C, staged_pixels, d.H * d.W, scale, staged, entry_stride);
      __syncthreads();
    }
    const float image_unscale = 1.0f / scale;

    if (task + gridDim.x < tasks && tiling.bands == 1) {
      const char* next = reinterpret_cast<const char*>(source + 1LL * gridDim.x * d.C * d.H * d.W);
      for (int i = threadIdx.x * 128; i < d.C * d.H * d.W * 4; i += threads * 128) prefetch_l2(next + i);
    }

    for (int chunk = warp * kChunk; chunk < pixels; chunk += warps * kChunk) {
      const char* corner[kColumns];  // per tile: first pixel of the window of this lane's column g
#pragma unroll
      for (int n = 0; n < kColumns; ++n) {
        const int pixel = min(chunk + 8 * n + g, pixels - 1);
        corner[n] = reinterpret_cast<const char*>(staged + pixel + divide(pixel, tiling.inverse_OW) * (d.K - 1));
      }
      const auto load = [&](int offset, uint4(&to)[kColumns]) {
#pragma unroll
        for (int n = 0; n < kColumns; ++n) to[n] = *reinterpret_cast<const uint4*>(corner[n] + offset);
      };
      // Returns where this lane's two outputs of filter g in group i, columns 2t and 2t + 1 of tile n, are stored.
      const auto outgoing_at = [&](int i, int n) { return outgoing + (i * 8 + g) * kStride + 8 * n + 2 * t; };
      float sum[kTiles][kColumns][4] = {};
      float small[kHalf ? 1 : kHigh][kColumns][4] = {};  // products with the pixels' low parts
      // While a step is multiplied, the next step's pixels are in flight and, if there are enough registers, its
      // weights.
      constexpr bool kWeightsAhead = kGroups == 3;
      uint4 in[kColumns], next[kColumns], w_next[kTiles];
      const auto load_weights = [&](int step, uint4(&to)[kTiles]) {
#pragma unroll
        for (int tile = 0; tile < kTiles; ++tile) to[tile] = weights[(step * kGroups + tile) * 32 + lane];
      };
      load(offsets[t], next);
      if (kWeightsAhead) load_weights(0, w_next);
      int offset = offsets[4 + t];
      for (int begin = 0, end; begin < depth; begin = end) {
        end = kLong ? min(begin + tiling.chain, depth) : depth;
#pragma unroll 2
        for (int step = begin; step < end; ++step) {
          if (!kWeightsAhead) load_weights(step, w_next);
          uint32_t w[kTiles][4];
#pragma unroll
          for (int tile = 0; tile < kTiles; ++tile) *reinterpret_cast<uint4*>(w[tile]) = w_next[tile];
#pragma unroll
          for (int n = 0; n < kColumns; ++n) in[n] = next[n];
          if (kWeightsAhead) load_weights(min(step + 1, depth - 1), w_next);
          load(offset, next);
          offset = offsets[(step + 2) * 4 + t];
          if (!kHalf) {
#pragma unroll
            for (int tile = 0; tile < kHigh; ++tile)
#pragma unroll
              for (int n = 0; n < kColumns; ++n) mma(small[tile][n], w[tile], in[n].z, in[n].w);
          }
#pragma unroll
          for (int tile = 0; tile < kTiles; ++tile)
#pragma unroll
            for (int n = 0; n < kColumns; ++n) mma(sum[tile][n], w[tile], in[n].x, in[n].y);
        }
        // Sums of finished chains are kept in the buffer for outputs, because there are no registers for them.
        if (kLong && end < depth) {
#pragma unroll
          for (int i = 0; i < kGroups; ++i)
#pragma unroll
            for (int n = 0; n < kColumns; ++n) {
              float *high = &sum[i / 2][n][i % 2 * 2], *done = outgoing_at(i, n);
              const bool first = begin == 0;
              *reinterpret_cast<float2*>(done) =
                  make_float2(high[0] + (first ? 0.0f : done[0]), high[1] + (first ? 0.0f : done[1]));
              high[0] = high[1] = 0.0f;
            }
        }
      }

      // Outputs go through shared memory, so that a warp writes runs of kChunk outputs, not of 8. Group i is rows
      // g + 8 (i % 2) of tile i / 2; the sums with its low parts are group kGroups + i, in the same lane.
#pragma unroll
      for (int i = 0; i < kGroups; ++i) {
#pragma unroll
        for (int n = 0; n < kColumns; ++n) {
          float v[2];
#pragma unroll
          for (int e = 0; e < 2; ++e) {
            const int low_group = kGroups + i;
            v[e] = sum[i / 2][n][i % 2 * 2 + e];
            if (kLong) v[e] += outgoing_at(i, n)[e];
            if (!kHalf)
              v[e] +=
                  (sum[low_group / 2][n][low_group % 2 * 2 + e] + small[i / 2][n][i % 2 * 2 + e]) * (1.0f / kLowScale);
            v[e] = v[e] * filter_unscale * image_unscale;
          }
          *reinterpret_cast<float2*>(outgoing_at(i, n)) = make_float2(v[0], v[1]);
        }
      }
      __syncwarp();
      if (vector) {
        for (int i = lane; i < d.M * (kChunk / 4); i += 32) {
          const int m = i / (kChunk / 4), at = i % (kChunk / 4) * 4;
          if (chunk + at < pixels)
            __stcs(reinterpret_cast<float4*>(out + m * plane + chunk + at),
                   *reinterpret_cast<const float4*>(outgoing + m * kStride + at));
        }
      } else {  // stores 32 outputs of a filter at a time; a longer chunk's last 16 of two filters at a time
        if (chunk + lane < pixels) {
          float* to = out + chunk + lane;
          const float* from = outgoing + lane;
#pragma unroll 4
          for (int m = 0; m < d.M; ++m, to += plane, from += kStride) *to = *from;
        }
        const int last = 32 + lane % 16;
        if (kChunk > 32 && chunk + last < pixels) {
          float* to = out + lane / 16 * plane + chunk + last;
          const float* from = outgoing + lane / 16 * kStride + last;
#pragma unroll 4
          for (int m = lane / 16; m < d.M; m += 2, to += 2 * plane, from += 2 * kStride) *to = *from;
        }
      }
      __syncwarp();
    }
  }
}

template <int kGroups, bool kHalf, bool kLong = false>
fops_status run(const fops_conv& c, const float* x, const float* k, float* y, cudaStream_t stream) {
  int sm_shared = 0;
  FOPS_TRY(device_attribute(cudaDevAttrMaxSharedMemoryPerMultiprocessor, &sm_shared));
  // Half of an SM's shared memory, for two blocks per SM (1.5 KB per block are used otherwise); at least kEveryGpuShared.
  const size_t limit = std::max<size_t>(kEveryGpuShared, sm_shared / 2 - 1536);

  const Dims d = dims(c);
  Tiling tiling;
  tiling.rows = static_cast<int>(band_rows(c, limit));
  tiling.bands = static_cast<int>(ceil_div(d.OH, tiling.rows));
  tiling.chain = max_chain(c.C * c.K * c.K);
  tiling.inverse_OW = inverse_of(d.OW);
  const int warps = warps_for(kGroups, tiling.rows, d.OW);
  const size_t shared = shared_bytes(c, tiling.rows, warps);
  const bool vector = d.OH * d.OW % 4 == 0 && (tiling.bands == 1 || tiling.rows * d.OW % 4 == 0) &&
                      reinterpret_cast<uintptr_t>(y) % 16 == 0;
  if constexpr (!kHalf && !kLong)
    if (steps(c.C, c.K) > tiling.chain) return run<kGroups, kHalf, true>(c, x, k, y, stream);
  auto* kernel = tensor_core_channel_quads<kGroups, kHalf, kLong>;
  unsigned grid = 0;
  FOPS_TRY(resident_grid(kernel, 32 * warps, shared, d.B * tiling.bands, &grid));
  kernel<<<grid, 32 * warps, shared, stream>>>(d, tiling, vector, x, k, y);
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

bool takes_channel_quads(const fops_conv& c) {
  return takes_any(c) && c.x_type == FOPS_FLOAT32 && c.C > 1 && c.C <= 64 && c.M <= 32 && c.K <= 7 &&
         c.C * c.K * c.K >= kMinProducts && c.H <= 1024 && c.W <= 1024 && out_w(c) >= 2 &&
         band_rows(c, kEveryGpuShared) > 0;
}

fops_status run_channel_quads(const fops_conv& c, bool half, const void* x, const float* k, float* y,
                              cudaStream_t stream) {
  const float* input = static_cast<const float*>(x);
  return half ? run<true>(c, input, k, y, stream) : run<false>(c, input, k, y, stream);
}

}  // namespace fops
