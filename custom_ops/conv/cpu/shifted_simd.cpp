// Implicit GEMM over K shifted copies of each image. Compiled once for each instruction set; FOPS_ISA is the name of the
// set and of its namespace.
//
//   S[c][q][h][w] = x[c][h][w + q], w < W_out       x  a b c d e     S[q=0]  a b c      row (c, p, q) of the product's
//   row (c, p, q) = S[c][q] + p * W_out                f g h i j             f g h      matrix is contiguous for any
//                                                                    S[q=1]  b c d      W_out and needs no masks
//
// Costs: K copies of each pixel (im2col makes K * K). For a 28x28 image and K = 5 they take 13 KB, which stay in L1.
// Gains: the micro-kernel keeps kRows filters x kVectors vectors of outputs in registers. With AVX-512 that is 6 x 4
// (24 of 32 registers), and 24 multiply-adds need 10 loads; with 16 registers it is 4 x 3.
#include "base/scratch.h"
#include "base/status.h"
#include "base/thread_pool.h"
#include "conv/cpu/kernels.h"
#include "conv/cpu/shifted_kernel.h"

namespace fops::FOPS_ISA {
namespace {

// Limit for the bytes of a band's S, so that a 1 MB second-level cache has space left for weights and outputs.
constexpr int64_t kBandBytes = 512 << 10;

// An output with more bytes than this is not in a near cache when it is written, so its lines are prefetched while the
// sums are computed.
constexpr int64_t kFarBytes = 4 << 20;

}  // namespace

fops_status conv_shifted(const fops_conv& conv, const void* x, const float* k, float* y, void*) {
  const int64_t H_out = out_h(conv), W_out = out_w(conv);
  const int threads = threads_for(conv);

  // An item is a band of an image, for a group of filter blocks. A band has at most as many rows as keep S near
  // kBandBytes. If there are few images, the filter blocks of an image are divided into groups. Only if these are too few,
  // an image is divided into more bands, because neighbouring bands both copy the rows that they share.
  const int64_t wanted = threads > 1 ? (2 * threads + conv.B - 1) / conv.B : 1;
  const int64_t blocks = filter_blocks(conv.M), groups = std::min(blocks, wanted);
  const int64_t row_bytes = conv.C * conv.K * W_out * 4, parts = (wanted + groups - 1) / groups;
  int64_t band = std::max<int64_t>(1, kBandBytes / row_bytes - (conv.K - 1));
  band = std::min({band, H_out, (H_out + parts - 1) / parts});
  const int64_t bands = (H_out + band - 1) / band;

  // The last vectors read up to kSlack floats past the band's end. These floats are set to zero, because arithmetic on
  // subnormal numbers or NaN could be slow, even in lanes whose results are dropped.
  const int64_t plane = (band + conv.K - 1) * W_out;
  const int64_t floats = conv.C * conv.K * plane + kSlack;
  const int64_t stride = (floats + 15) / 16 * 16;
  float* const memory = static_cast<float*>(scratch(stride * 4 * threads));
  if (!memory) return fail(FOPS_OUT_OF_MEMORY, "out of host memory; use fewer threads");

  const bool far = conv.B * conv.M * H_out * W_out * 4 > kFarBytes;
  const int64_t depth = conv.C * conv.K * conv.K, part = part_of_sum(depth, conv.K) / conv.K;
  const Band b = {conv.C, conv.K, conv.M, plane, W_out, depth, H_out * W_out, far, part};

  parallel_for(conv.B * bands * groups, threads, [&](int64_t item, int worker) {
    const int64_t group = item % groups, h0 = item / groups % bands * band, image = item / groups / bands;
    const int64_t rows = std::min(band, H_out - h0);
    float* S = memory + worker * stride;
    memset(S + conv.C * conv.K * plane, 0, kSlack * 4);
    const int64_t offset = image * conv.C * conv.H * conv.W + h0 * conv.W;
    with_input(conv, x, [&](auto* typed) { shift(conv, typed + offset, rows + conv.K - 1, S, plane); });
    float* const out = y + image * conv.M * b.y_stride + h0 * W_out;
    for (int64_t block = blocks * group / groups; block < blocks * (group + 1) / groups; ++block)
      multiply_block(b, S, k, out + block_start(b, block) * b.y_stride, block, rows * W_out);
  });
  return FOPS_OK;
}

}  // namespace fops::FOPS_ISA
