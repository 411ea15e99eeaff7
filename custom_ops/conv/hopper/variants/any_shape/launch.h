// For any_shape.cu: passes a call to the files with the kernel's instances (tiles.cu, stacked.cu, taps.cu). There are
// three files because each takes a minute to compile.
#pragma once

#include <cuda_runtime.h>

#include "conv/hopper/choose.h"
#include "conv/hopper/split.cuh"
#include "fashion_ops.h"

namespace fops::hopper {

struct Packed {
  float* unscale;      // per filter: the factor that undoes its scale; 0 if a weight is unsplittable, in which case the
                       // fallback computes all outputs of the tile's filters
  ImageScale* images;  // per image
  float4* kept;        // the sums of KeptSums: [task][part][sum][columns / 8][kConsumerThreads]
  uint32_t* marks;     // [task][part]: number of sums | 1 << 16 if a value is unsplittable
  uint8_t* tiles;      // weights: [block of filters][step][tile of the block][high, low][kTileBytes]
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

fops_status launch_tiles(const Call& call, const Choice& choice);    // for choice.taps of 0
fops_status launch_stacked(const Call& call, const Choice& choice);  // for choice.taps of 1
fops_status launch_taps(const Call& call, const Choice& choice);     // for choice.taps of 2, 4 or 8

bool usable();

}  // namespace fops::hopper
