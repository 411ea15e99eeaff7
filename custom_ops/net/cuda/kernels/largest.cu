// Finds the index of each item's largest value: the first one among equal values. NaN counts as the largest. One thread
// per item.
//
// Costs: a thread reads its item's values one after the other. Gains: only 4 bytes per item go to the host, 128 per
// warp, and the host does not search.
#include "gpu/isa/dependents.cuh"
#include "gpu/launch.h"
#include "net/cuda/kernels/stages.h"

namespace fops {
namespace {

constexpr int kThreads = 128;

__global__ void __launch_bounds__(kThreads)
    largest(long long n, int size, const float* __restrict__ x, int32_t* __restrict__ y) {
  wait_for_previous_kernel();
  const long long item = 1LL * blockIdx.x * kThreads + threadIdx.x;
  if (item >= n) return;
  const float* values = x + item * size;
  float most = values[0];
  int at = 0;
#pragma unroll 8
  for (int i = 1; i < size; ++i) {
    const float value = values[i];
    if (value > most || (value != value && most == most)) most = value, at = i;
  }
  y[item] = at;
}

}  // namespace

fops_status run_largest(int64_t n, int64_t size, const float* x, int32_t* y, cudaStream_t stream) {
  FOPS_TRY(
      launch_early(largest, grid_for(ceil_div(n, kThreads)), 1, kThreads, 0, stream, n, static_cast<int>(size), x, y));
  return launched("largest values");
}

}  // namespace fops
