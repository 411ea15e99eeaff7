// The fast CPU convolution: implicit GEMM over K shifted copies of each image.
//
// A convolution is a matrix product: the M x (C*K*K) weights times a (C*K*K) x (H_out*W_out) matrix whose row (c,p,q)
// is the image shifted by (p,q). im2col writes that matrix out: 25 copies of every pixel for a 5x5 kernel. But rows
// (c,p,q) and (c,p+1,q) are the same numbers one image row apart, so it is enough to store, for each c and q, the
// image with its rows cut to columns q .. q+W_out-1, one after the other without gaps:
//
//     S[c][q][h][w] = x[c][h][w+q],   h < H, w < W_out        and then row (c,p,q) is S[c][q] + p*W_out, contiguous.
//
// That is K copies instead of K*K: 13 KB for a 28x28 image and K = 5, so it lives in the 32 to 48 KB L1 cache, and
// every vector of outputs is one contiguous (unaligned) load, whatever W_out is: 24 needs no masks on 16 lanes.
//
// The micro-kernel keeps kRows filters x kVectors vectors of outputs in registers: each loaded vector feeds kRows
// multiply-adds and each broadcast weight kVectors. With AVX-512 that is 6 x 4 (24 of 32 registers), 24 FMAs for 10
// loads; with 16 registers 4 x 3. Stores that bypass the cache were tried and dropped: 0.26 s against 0.22 for the
// 1.15 GB of fa2017's 10,000 images on two Sapphire Rapids cores, and the layer's reader finds nothing in cache.
//
// This file is compiled once for each instruction set; FOPS_ISA names the set and its namespace.
#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <utility>

#include "cpu_kernels.h"
#include "pool.h"
#include "status.h"

namespace fops {
namespace FOPS_ISA {

namespace {

#if defined(__AVX512F__)
constexpr int kLanes = 16, kRows = 6, kVectors = 4;
#elif defined(__AVX2__)
constexpr int kLanes = 8, kRows = 4, kVectors = 3;
#else
constexpr int kLanes = 4, kRows = 4, kVectors = 3;
#endif
constexpr int kVectorBytes = kLanes * 4;

// A band's S should leave room in a 1 MB second-level cache for weights and outputs.
constexpr int64_t kBandBytes = 512 << 10;

typedef float Vector __attribute__((vector_size(kVectorBytes), may_alias));
typedef float UnalignedVector __attribute__((vector_size(kVectorBytes), aligned(4), may_alias));

inline Vector load(const float* p) { return *reinterpret_cast<const UnalignedVector*>(p); }
inline void store(float* p, Vector v) { *reinterpret_cast<UnalignedVector*>(p) = v; }

// What one band of output rows of one image needs.
struct Band {
  int64_t C, K, M;
  int64_t plane;      // floats from one S[c][q] to the next
  int64_t W_out;      // floats from one p to the next
  int64_t depth;      // C*K*K, floats from one filter to the next
  int64_t y_stride;   // H_out*W_out, floats from one filter's output to the next
};

// rows x vectors outputs; `count` of the floats in the last vector are valid.
template <int rows, int vectors>
void micro_kernel(const Band& b, const float* S, const float* k, float* y, int64_t count) {
  Vector acc[rows][vectors] = {};
  for (int64_t c = 0; c < b.C; ++c)
    for (int64_t p = 0; p < b.K; ++p) {
      const float* row = S + c * b.K * b.plane + p * b.W_out;
      for (int64_t q = 0; q < b.K; ++q, row += b.plane, ++k) {
        Vector x[vectors];
        for (int v = 0; v < vectors; ++v) x[v] = load(row + v * kLanes);
        for (int r = 0; r < rows; ++r) {
          const float weight = k[r * b.depth];
          for (int v = 0; v < vectors; ++v) acc[r][v] += x[v] * weight;
        }
      }
    }
  for (int r = 0; r < rows; ++r) {
    float* out = y + r * b.y_stride;
    for (int v = 0; v < vectors - 1; ++v) store(out + v * kLanes, acc[r][v]);
    memcpy(out + (vectors - 1) * kLanes, &acc[r][vectors - 1], count * sizeof(float));
  }
}

using MicroKernel = void (*)(const Band&, const float*, const float*, float*, int64_t);

template <int rows, int... v>
constexpr MicroKernel pick(int vectors, std::integer_sequence<int, v...>) {
  constexpr MicroKernel by_vectors[] = {micro_kernel<rows, v + 1>...};
  return by_vectors[vectors - 1];
}

template <int... r>
MicroKernel pick(int rows, int vectors, std::integer_sequence<int, r...>) {
  const MicroKernel by_rows[] = {pick<r + 1>(vectors, std::make_integer_sequence<int, kVectors>())...};
  return by_rows[rows - 1];
}

// S for `rows` image rows that start at x (one image, C channels of H x W).
template <typename T>
void shift(const fops_conv& conv, const T* x, int64_t rows, float* S, int64_t plane) {
  const int64_t W_out = out_w(conv);
  for (int64_t c = 0; c < conv.C; ++c)
    for (int64_t q = 0; q < conv.K; ++q) {
      const T* from = x + c * conv.H * conv.W + q;
      float* to = S + (c * conv.K + q) * plane;
      for (int64_t h = 0; h < rows; ++h, from += conv.W, to += W_out)
        for (int64_t w = 0; w < W_out; ++w) to[w] = static_cast<float>(from[w]);
    }
}

// y for output positions [0, positions) of the band, all filters.
void multiply(const Band& b, const float* S, const float* k, float* y, int64_t positions) {
  const int64_t blocks = (b.M + kRows - 1) / kRows;
  for (int64_t n = 0; n < positions; n += kVectors * kLanes) {
    const int64_t left = std::min<int64_t>(positions - n, kVectors * kLanes);
    const int vectors = static_cast<int>((left + kLanes - 1) / kLanes);
    const int64_t count = left - (vectors - 1) * kLanes;
    // Filters in blocks of nearly equal size: 50 as 6 6 6 6 6 5 5 5 5, since a block of 2 would stall on latency.
    for (int64_t block = 0; block < blocks; ++block) {
      const int64_t m = b.M * block / blocks, end = b.M * (block + 1) / blocks;
      pick(static_cast<int>(end - m), vectors, std::make_integer_sequence<int, kRows>())(
          b, S + n, k + m * b.depth, y + m * b.y_stride + n, count);
    }
  }
}

}  // namespace

fops_status conv_shifted(const fops_conv& conv, const void* x, const float* k, float* y, void*) {
  const int64_t H_out = out_h(conv), W_out = out_w(conv);
  const int threads = pool_threads();

  // Output rows a band: as many as keep S near kBandBytes, and few enough to give every thread work.
  const int64_t row_bytes = conv.C * conv.K * W_out * 4;
  int64_t band = std::max<int64_t>(1, kBandBytes / row_bytes - (conv.K - 1));
  const int64_t bands_wanted = (4 * threads + conv.B - 1) / conv.B;
  band = std::min({band, H_out, std::max<int64_t>(1, (H_out + bands_wanted - 1) / bands_wanted)});
  const int64_t bands = (H_out + band - 1) / band;

  // The last vector of the last row reads past the band's end: kVectors vectors of slack, zeroed so that no
  // arithmetic on leftovers (denormals, NaN) slows the lanes whose results are dropped.
  const int64_t plane = (band + conv.K - 1) * W_out;
  const int64_t floats = conv.C * conv.K * plane + kVectors * kLanes;
  const int64_t stride = (floats + 15) / 16 * 16;
  std::unique_ptr<float, decltype(&free)> scratch(
      static_cast<float*>(aligned_alloc(64, static_cast<size_t>(stride) * 4 * threads)), &free);
  if (!scratch)
    return fail(FOPS_OUT_OF_MEMORY, "out of host memory: the kernel needs %lld bytes of scratch; use fewer threads",
                (long long)stride * 4 * threads);

  const Band b = {conv.C, conv.K, conv.M, plane, W_out, conv.C * conv.K * conv.K, H_out * W_out};

  parallel_for(conv.B * bands, threads, [&](int64_t item, int worker) {
    const int64_t image = item / bands, h0 = item % bands * band;
    const int64_t rows = std::min(band, H_out - h0);
    float* S = scratch.get() + worker * stride;
    memset(S + conv.C * conv.K * plane, 0, kVectors * kLanes * 4);
    const int64_t offset = image * conv.C * conv.H * conv.W + h0 * conv.W;
    if (conv.x_type == FOPS_UINT8)
      shift(conv, static_cast<const uint8_t*>(x) + offset, rows + conv.K - 1, S, plane);
    else
      shift(conv, static_cast<const float*>(x) + offset, rows + conv.K - 1, S, plane);
    multiply(b, S, k, y + image * conv.M * b.y_stride + h0 * W_out, rows * W_out);
  });
  return FOPS_OK;
}

}  // namespace FOPS_ISA
}  // namespace fops
