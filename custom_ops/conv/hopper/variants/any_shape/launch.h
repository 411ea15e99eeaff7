// Any shape: passes a call from any_shape.cu to the files with its kernels. There are three files because each takes a
// minute to compile.
#pragma once

#include <cuda_runtime.h>

#include "conv/hopper/choose.h"
#include "conv/hopper/split.cuh"
#include "fashion_ops.h"

namespace fops {
namespace hopper {

// A call's packed weights and scales, on the device.
struct Packed {
  float* unscale;  // per filter: the factor that undoes its scale; 0 if some weight is unsplittable, which
                       // sends all outputs of its tile's filters to the fallback
  ImageScale* images;  // per image
  float4* kept;        // [task][part][sum][columns / 8][kConsumerThreads]
  uint32_t* marks;     // [task][part]: number of sums | 1 << 16 if a value is unsplittable
  uint8_t* tiles;      // [block][step][tile of the block][high, low][kTileBytes]
};

struct Call {
  const fops_conv& c;
  const Plan& plan;
  const Steps& steps;
  const void* x;
  const float* k;
  float* y;
  Packed packed;
  cudaStream_t stream;
};

fops_status launch_tiles(const Call& call, const Choice& choice);    // taps 0
fops_status launch_stacked(const Call& call, const Choice& choice);  // taps 1
fops_status launch_taps(const Call& call, const Choice& choice);     // taps 2, 4, 8

// Whether the kernels have code for this thread's device.
bool usable();

}  // namespace hopper
}  // namespace fops
