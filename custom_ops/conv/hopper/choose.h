// Which variant runs a convolution, and how the any-shape variant tiles it: the cheapest of several candidates. Plain
// C++: tests/build/test_choose.py compiles it without CUDA.
#pragma once

#include <functional>
#include <vector>

#include "conv/hopper/plan.h"

namespace fops {
namespace hopper {

// ---- among variants ----

// In the order of the table (table.cu), which names them.
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
  column_strips,
  any_shape,
  channel_quads,
  none,
};
constexpr int kVariants = static_cast<int>(Variant::none);

// The cheapest variant that takes this convolution, or `none`. `half`: step 13's single product of halves. `major`: the
// GPU's compute capability. takes(variant): whether the shape fits, and the variant has code for this GPU.
Variant choose_variant(const fops_conv& c, bool half, int major, const std::function<bool(Variant)>& takes);

// ---- among tilings of the any-shape variant ----

// How tasks are cut. An output has the same bits with every choice. `columns` is the number of positions of a wgmma. It
// is 128, or 112 or 72 where an image's end would leave most of 128 empty, or 32 where tasks would be few; then `parts`
// blocks may also share the depth. With strips it is 128, 96 or 32: a task has `strips` strips side by side, `rows`
// output rows each.
struct Choice {
  int taps, tiles, columns, parts;  // taps: see Form
  int strips = 0, rows = 0;
  int filters() const { return tiles * (taps > 0 ? kTileRows / 2 / taps : kTileRows); }
  int step_bytes() const { return tiles * (taps > 0 ? 1 : 2) * kTileBytes; }
  // Steps whose weights are loaded together. They decide where chains end, so they are the same for one tile and two.
  int group() const { return taps > 0 ? 8 : 4; }
  int eights() const { return columns / 8 * (tiles == 1 ? 2 : 1); }  // groups of eight positions per task
};

// The tiling for large batches. Chunks and chains end at the same places in every other tiling of the layer.
Choice default_choice(const fops_conv& c);

// Fills in the plan of a choice, except for its threshold. False if the pixels of a task do not fit into shared memory,
// however few channels are staged at a time. `per_chunk`: slots per chunk, 0 for as many as fit.
bool plan_for(const fops_conv& c, const Choice& choice, int per_chunk, Plan* plan);

struct Candidate {
  Choice choice;
  Plan plan;
};

// The tilings worth comparing. The default one, whose plan is given, comes first.
std::vector<Candidate> tilings(const fops_conv& c, const Plan& plan, int sms);

// Estimated time of a candidate, in cycles.
double cost(const Candidate& candidate, int sms);

// The cheapest candidate; the first one among equals.
Candidate choose_tiling(const fops_conv& c, const Plan& plan, int sms);

// Offsets of the units of a plan's steps.
Steps steps_for(const fops_conv& c, const Plan& plan);

}  // namespace hopper
}  // namespace fops
