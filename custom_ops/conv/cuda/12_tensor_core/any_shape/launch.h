// Any shape on Hopper: a call on its way from any_shape.cu, which cuts the work, to the files that hold its kernels:
// three of them, for each takes a minute to compile.
#pragma once

#include "conv/cuda/12_tensor_core/any_shape/plan.h"
#include "fashion_ops.h"

namespace fops {
namespace any_shape {

// How tasks are cut; an output is the same to the last bit whichever way. `columns` are positions of a wgmma: 128, or
// 112 and 72 where an image's end would leave most of 128 empty, or 32 where tasks would be few; then `parts` blocks may
// share the depth as well. Of strips, 128, 96 or 32: `strips` side by side of `rows` output rows.
struct Choice {
  int taps, tiles, columns, parts;  // taps: see Form
  int strips = 0, rows = 0;
  int filters() const { return tiles * (taps > 0 ? kTileRows / 2 / taps : kTileRows); }
  int step_bytes() const { return tiles * (taps > 0 ? 1 : 2) * kTileBytes; }
  // Steps whose weights are brought together. They decide where chains end, so they are the same for one tile and two.
  int group() const { return taps > 0 ? 8 : 4; }
  int eights() const { return columns / 8 * (tiles == 1 ? 2 : 1); }  // of positions, a task
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

}  // namespace any_shape
}  // namespace fops
