// Step 8: the weights are in constant memory, from which one read gives a value to all lanes of a warp. No weight is
// read from shared memory.
//
//        k[m][p][q]              innermost cache         |----- about 2 KB -----|
//     /  /  |  |  \  \           12 filters, 1.2 KB      |=============|
//   lane 0 1  ...  30 31         50 filters, 5 KB        |======================...=======|   does not fit
//
// Costs: there is one constant array per device, so passes on several streams must take turns.
// Gains: twice the speed with few filters. With 50 filters it is slower, because their 5 KB do not fit into the
// innermost cache. docs/notebook.md says what the compiler does with 50 filters.
#include <mutex>

#include "conv/cuda/course_layers.h"
#include "conv/cuda/kernels.h"

namespace fops {
namespace {

constexpr int kThreads = 1024;
__constant__ float g_weights[16000];  // the limit is 64 KB; the course's largest layer has 14,112 weights

template <typename L, typename X>
__global__ void __launch_bounds__(kThreads)
    constant_weights(long long B, const X* __restrict__ x, float* __restrict__ y) {
  extern __shared__ float image[];
  constexpr int pixels = L::C * L::H * L::W, plane = L::OH * L::OW;

  for (long long b = blockIdx.x; b < B; b += gridDim.x) {
    for (int i = threadIdx.x; i < pixels; i += kThreads) image[i] = static_cast<float>(x[b * pixels + i]);
    __syncthreads();

    for (int i = threadIdx.x; i < plane; i += kThreads) {
      const int h = i / L::OW, w = i % L::OW;
      for (int m = 0; m < L::M; ++m) {
        float sum = 0.0f;
        for (int c = 0; c < L::C; ++c) {
          const float* window = image + (c * L::H + h) * L::W + w;
          const float* filter = g_weights + (m * L::C + c) * L::K * L::K;
#pragma unroll
          for (int p = 0; p < L::K; ++p)
#pragma unroll
            for (int q = 0; q < L::K; ++q) sum += window[p * L::W + q] * filter[p * L::K + q];
        }
        y[(b * L::M + m) * plane + i] = sum;
      }
    }
    __syncthreads();
  }
}

// Lets passes on any number of streams take turns with a device's g_weights. A pass waits (on the device, not on the
// host) until the previous pass's kernel has ended, copies its weights, runs its kernel, and records the event `read`.
struct ConstantTurn {
  std::mutex mutex;
  cudaEvent_t read[64] = {};  // indexed by device number
};

ConstantTurn& turn() {
  static ConstantTurn the_turn;
  return the_turn;
}

}  // namespace

fops_status run_constant_weights(const fops_conv& c, const void* x, const float* k, float* y, void* stream_) {
  const auto stream = static_cast<cudaStream_t>(stream_);
  const size_t shared = sizeof(float) * image_floats(c);
  int device = 0;
  FOPS_CUDA(cudaGetDevice(&device));
  if (device >= 64) return fail(FOPS_UNSUPPORTED, "constant-weights knows the first 64 devices, not device %d", device);

  const std::lock_guard<std::mutex> lock(turn().mutex);
  cudaEvent_t& read = turn().read[device];
  if (read == nullptr) FOPS_CUDA(cudaEventCreateWithFlags(&read, cudaEventDisableTiming));
  void* symbol = nullptr;
  FOPS_CUDA(cudaGetSymbolAddress(&symbol, g_weights));
  FOPS_CUDA(cudaStreamWaitEvent(stream, read, 0));
  FOPS_CUDA(cudaMemcpyAsync(symbol, k, sizeof(float) * weight_floats(c), cudaMemcpyDeviceToDevice, stream));
  FOPS_TRY(with_course_layer(c, [&](auto layer) {
    return with_input(c, x, [&](auto typed) {
      auto* kernel = constant_weights<decltype(layer), std::remove_cv_t<std::remove_pointer_t<decltype(typed)>>>;
      FOPS_TRY(allow_shared(kernel, shared));
      kernel<<<grid_for(c.B), kThreads, shared, stream>>>(c.B, typed, y);
      return launched("constant-weights");
    });
  }));
  FOPS_CUDA(cudaEventRecord(read, stream));
  return FOPS_OK;
}

}  // namespace fops
