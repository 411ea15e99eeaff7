// Chooses the variant that runs a convolution, by priority, and the tiling of the variant any-shape, by the lowest
// estimated cost. This is plain C++: tests/build/test_choose.py compiles it without CUDA.
#pragma once

#include <functional>
#include <vector>

#include "conv/hopper/plan.h"

namespace fops::hopper {

// The variants, in order of priority. The table in table.cu, which has their names, has the same order.
enum class Variant {
  shifted_filters,
  quad_columns,
  pixel_columns,
  pointwise,
  output_row_pairs,
  column_major_tiles,
  register_weights,
  warpgroup_images,
  image_bands,
  any_shape,
  channel_quads,
  none,
};
constexpr int kVariants = static_cast<int>(Variant::none);

// Returns the variant of the highest priority that supports this convolution, or `none`. `half`: whether to use a
// single product of halves (step 13). `major`: the major number of the GPU's compute capability. takes(variant):
// whether the variant supports the shape and has code for this GPU.
Variant choose_variant(const fops_conv& c, bool half, int major, const std::function<bool(Variant)>& takes);

// A tiling: how the work is divided into tasks. An output has the same bits with every tiling. `columns` is the number
// of positions per wgmma: 128; 112 or 72 if an image's last task would leave most of 128 positions empty; or 32 if
// there would be few tasks, in which case `parts` blocks may also divide a task's products. With strips `columns` is
// 128, 96 or 32.
struct Choice {
  int taps, tiles,  // see Form in variants/any_shape/kernel.cuh
      columns, parts;
  int strips = 0, rows = 0;  // strips of a task, side by side, or 0; output rows per strip
  int filters() const { return tiles * (taps > 0 ? kTileRows / 2 / taps : kTileRows); }  // per block
  int step_bytes() const { return tiles * (taps > 0 ? 1 : 2) * kTileBytes; }             // weights of a step
  // Number of steps whose weights are loaded together. Chains end after such groups, so the number does not depend on
  // `tiles`: otherwise outputs would have other bits.
  int group() const { return taps > 0 ? 8 : 4; }
  int eights() const { return columns / 8 * (tiles == 1 ? 2 : 1); }  // groups of eight positions per task
};

// Returns the tiling for large batches. Chunks and chains of the layer's other tilings end at the same places.
Choice default_choice(const fops_conv& c);

// Sets *plan to the plan of a tiling, except for the fields threshold, half and early. Returns false if the pixels of a
// task do not fit into shared memory, even with one slot per chunk. `per_chunk`: desired slots per chunk, or 0 for a
// number that depends on the layer.
bool plan_for(const fops_conv& c, const Choice& choice, int per_chunk, Plan* plan);

struct Candidate {
  Choice choice;
  Plan plan;
};

// Returns the tilings to compare. The default tiling, whose plan is `plan`, comes first.
std::vector<Candidate> tilings(const fops_conv& c, const Plan& plan, int sms);

double cost(const Candidate& candidate, int sms);

Candidate choose_tiling(const fops_conv& c, const Plan& plan, int sms);

Steps steps_for(const fops_conv& c, const Plan& plan);

}  // namespace fops::hopper
