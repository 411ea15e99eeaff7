// Step 1: one thread per output (o), which keeps its running sum in global memory.
//
//   . . . . . .      # # #      . . . .     The thread loops over the taps (#) of its window of the image and its filter.
//   . # # # . .      # # #      . o . .     At every tap it reads the sum from memory, adds one product, and writes
//   . # # # . .  x   # # #  ->  . . . .     the sum back.
//   . # # # . .                             A block is 32 x 32 threads over one output plane.
//
// Costs: 2.9e8 outputs x 25 taps x 8 bytes are 58 GB of traffic for 1.15 GB of results; the caches serve most of it.
// Gains: a correct kernel to compare with. docs/kernels.md has the times of all steps.
#include "conv/cuda/own_output.cuh"

namespace fops {
namespace {

template <typename X>
__global__ void __launch_bounds__(kSide * kSide, 2) global_accumulate(Dims d, const X* x, const float* k, float* y) {
  for_own_outputs(d, x, k, y, [&](const OwnOutput<X>& output) {
    // Without volatile the compiler would keep the sum in a register, which is the idea of step 2.
    volatile float* sum = output.place;
    *sum = 0.0f;
    for (int c = 0; c < d.C; ++c)
      for (int p = 0; p < d.K; ++p)
        for (int q = 0; q < d.K; ++q) *sum = *sum + output.pixel(c, p, q) * output.weight(c, p, q);
  });
}

}  // namespace

fops_status run_global_accumulate(const fops_conv& c, const void* x, const float* k, float* y, void* stream) {
  const Dims d = dims(c);
  return with_input(c, x, [&](auto pixels) {
    global_accumulate<<<grid_for(output_tiles(d)), dim3(kSide, kSide), 0, static_cast<cudaStream_t>(stream)>>>(
        d, pixels, k, y);
    return launched("global-accumulate");
  });
}

}  // namespace fops
