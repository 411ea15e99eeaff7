// The table of CPU kernels. To add a kernel: write its file, declare the kernel in kernels.h, and add a line here.
#include <numeric>

#include "base/isa.h"
#include "conv/cpu/kernels.h"

namespace fops {
namespace {

bool any(const fops_conv&) { return true; }

// The functions of the *_simd.cpp files, as compiled for this machine's instruction set.
struct Simd {
  Kernel::Run *shifted, *direct, *broadcast, *tiles;
  Kernel::Takes* merges;
};
const Simd& simd() {
#define FOPS_SIMD(set) {set::conv_shifted, set::conv_direct, set::conv_broadcast, set::conv_tiles, set::direct_merges},
  static constexpr Simd each[] = {FOPS_EACH_ISA(FOPS_SIMD)};
#undef FOPS_SIMD
  return each[static_cast<int>(isa())];
}
#define FOPS_BEST(name)                                                                    \
  fops_status name(const fops_conv& c, const void* x, const float* k, float* y, void* s) { \
    return simd().name(c, x, k, y, s);                                                     \
  }
FOPS_BEST(shifted)
FOPS_BEST(direct)
FOPS_BEST(broadcast)
FOPS_BEST(tiles)
#undef FOPS_BEST

constexpr Kernel kKernels[] = {
    {"naive", "seven nested loops, one thread: the definition", "", "float32", any, conv_naive},
    {"shifted", "implicit GEMM over K shifted copies of each image, register-tiled, threaded", "", "float32", any,
     shifted},
    {"direct", "register-tiled over the image where it lies, threaded", "", "float32", any, direct},
    {"broadcast", "register-tiled with filters in the lanes of vectors, threaded", "", "float32", any, broadcast},
    {"tiles", "implicit GEMM on AMX tiles, each float32 in three bfloat16 parts", "", "float32", any, tiles},
};

constexpr const Kernel &kShifted = line_of(kKernels, shifted), &kDirect = line_of(kKernels, direct),
                       &kBroadcast = line_of(kKernels, broadcast), &kTiles = line_of(kKernels, tiles);

// Estimates of the time per image in nanoseconds on one Sapphire Rapids core at 3.3 GHz, from measured costs. `direct` with
// AVX-512 takes 14 ps per multiply-add. `tiles` with AMX takes 6.8 ps per multiply-add, 0.8 ns to split a weight, 0.4 ns to
// split an activation, and 0.1 ns per output.
double direct_cost(const fops_conv& c) { return 0.014 * c.M * c.C * c.K * c.K * out_h(c) * out_w(c); }
double tiles_cost(const fops_conv& c) {
  const auto round = [](int64_t n) { return static_cast<double>((n + 15) / 16 * 16); };
  const double weights = round(c.M) * round(c.C) * c.K * c.K;
  return 0.8 * weights + 0.4 * round(c.C) * c.H * c.W + (0.0068 * weights + 0.1 * round(c.M)) * out_h(c) * out_w(c);
}

// Estimates whether `broadcast` takes less time than `direct`, in cycles of a Zen 5 core per position and 32 filters. A
// product takes 1 cycle in `broadcast` and 1.02 in `direct` (1.2 where a vector has inputs of three rows). Storing the
// outputs takes 10 cycles in `broadcast` and 4 in `direct`. Packing the weights takes `broadcast` 12 cycles per product
// and call, or 24 if all threads use the same block of filters. An incomplete block takes as long as a full one: 16
// positions and 8 filters in `direct`, 32 filters in `broadcast`. The function returns true only where `direct` makes
// no copies. There, both kernels add up the same sums in the same order, so the choice may depend on the batch.
bool broadcast_pays(const fops_conv& c) {
  if (!simd().merges(c)) return false;
  const auto blocks = [](int64_t n, int64_t of) { return static_cast<double>((n + of - 1) / of * of); };
  const auto depth = static_cast<double>(c.C * c.K * c.K);
  const int64_t positions = out_h(c) * out_w(c);
  const double product = out_w(c) + std::gcd(out_w(c), int64_t{16}) < 16 ? 1.2 : 1.02;
  const double direct = blocks(c.M, 8) * (product * depth * blocks(positions, 16) + 4.0 * positions);
  const double packing = c.M > 32 ? 12 : 24;
  return blocks(c.M, 32) * (depth * (positions + packing / c.B) + 10.0 * positions) < direct;
}

// Chooses the kernel for a layer. Two batches of different size get the same kernel, or two kernels that compute the same
// bits, so that an image's result does not depend on the other images.
const Kernel* choose(const fops_conv& c) {
  if (amx() && tiles_cost(c) < direct_cost(c)) return &kTiles;
  if (broadcast_pays(c)) return &kBroadcast;
  // If `direct` has no masked loads for this layer, it usually computes columns that it drops, or copies the input. With few
  // channels, `shifted` is then faster.
  return c.C < 8 && c.K > 1 && !simd().merges(c) ? &kShifted : &kDirect;
}

}  // namespace

KernelTable cpu_kernels() { return {kKernels, static_cast<int>(sizeof kKernels / sizeof *kKernels), choose}; }

}  // namespace fops
