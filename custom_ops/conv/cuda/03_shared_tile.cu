// Step 3: a block's input tile and its filter's weights in shared memory. A pixel that up to 25 threads read is loaded
// from global memory once.
//
//   +--------------+      tile in shared memory: 32 x 32 outputs need 36 x 36 pixels
//   | o o o o o .  |      o: a thread with an output; there are 24 x 24 such threads
//   | o o o o o .  |      .: a thread without an output; there are 448 of 1,024
//   | . . . . . .  |
//   +--------------+
//
// Costs: two barriers and a copy per channel. Gains: nothing on Hopper, where the L1 cache, which uses the same memory,
// already served step 2. On the GPUs of 2017 this step gained the most, and the next steps build on it.
#include "conv/cuda/kernels.h"

namespace fops {
namespace {

constexpr int kSide = 32;
constexpr int kThreads = kSide * kSide;

template <typename X>
__global__ void shared_tile(Dims d, const X* __restrict__ x, const float* __restrict__ k, float* __restrict__ y) {
  extern __shared__ float shared[];
  const int side = kSide + d.K - 1;  // a 32 x 32 tile of outputs needs this many input rows and columns
  float* weights = shared + side * side;
  const int thread = threadIdx.y * kSide + threadIdx.x;
  const int tiles_h = static_cast<int>(ceil_div(d.OH, kSide)), tiles_w = static_cast<int>(ceil_div(d.OW, kSide));
  const long long tiles = 1LL * tiles_h * tiles_w, tasks = d.B * d.M * tiles;

  for (long long task = blockIdx.x; task < tasks; task += gridDim.x) {
    const long long plane = task / tiles, b = plane / d.M, m = plane % d.M;
    const int h0 = static_cast<int>(task % tiles) / tiles_w * kSide;
    const int w0 = static_cast<int>(task % tiles) % tiles_w * kSide;

    float sum = 0.0f;
    for (int c = 0; c < d.C; ++c) {
      const X* input = x + (b * d.C + c) * d.H * d.W;
      for (int i = thread; i < side * side; i += kThreads) {
        const int h = h0 + i / side, w = w0 + i % side;
        shared[i] = h < d.H && w < d.W ? static_cast<float>(input[1LL * h * d.W + w]) : 0.0f;
      }
      for (int i = thread; i < d.K * d.K; i += kThreads) weights[i] = k[(m * d.C + c) * d.K * d.K + i];
      __syncthreads();
      for (int p = 0; p < d.K; ++p)
        for (int q = 0; q < d.K; ++q)
          sum += shared[(threadIdx.y + p) * side + threadIdx.x + q] * weights[p * d.K + q];
      __syncthreads();  // waits until all threads have read the tile, because the next channel overwrites it
    }
    const int h = h0 + threadIdx.y, w = w0 + threadIdx.x;
    if (h < d.OH && w < d.OW) y[(plane * d.OH + h) * d.OW + w] = sum;
  }
}

}  // namespace

// (31 + K)^2 + K^2 floats must fit into the 48 KB of shared memory that a block can have on any GPU.
bool takes_shared_tile(const fops_conv& c) { return takes_any(c) && c.K <= 32; }

fops_status run_shared_tile(const fops_conv& c, const void* x, const float* k, float* y, void* stream) {
  const Dims d = dims(c);
  const unsigned grid = grid_for(d.B * d.M * ceil_div(d.OH, kSide) * ceil_div(d.OW, kSide));
  const int side = kSide + d.K - 1;
  const size_t shared = sizeof(float) * (side * side + d.K * d.K);
  return with_input(c, x, [&](auto typed) {
    shared_tile<<<grid, dim3(kSide, kSide), shared, static_cast<cudaStream_t>(stream)>>>(d, typed, k, y);
    return launched("shared-tile");
  });
}

}  // namespace fops
