// Chooses the variant by priority, and the tiling by an estimated cost. See choose.h.
#include "conv/hopper/choose.h"

#include <algorithm>
#include <climits>

#include "gpu/divide.cuh"

namespace fops::hopper {
namespace {

struct Traits {
  bool hopper_only;  // uses wgmma; false for any_shape, whose predicate checks that the device has the code
  bool half;         // has a kernel for step 13: with a single product of halves
};

// In the order of Variant.
constexpr Traits kTraits[kVariants] = {
    {true, true},    // shifted_filters
    {false, true},   // quad_columns
    {false, true},   // pixel_columns
    {false, false},  // pointwise
    {true, false},   // output_row_pairs
    {true, false},   // column_major_tiles
    {true, false},   // register_weights
    {true, false},   // warpgroup_images
    {true, false},   // image_bands
    {false, true},   // any_shape
    {false, true},   // channel_quads
};

bool is_candidate(Variant variant, bool half, int major) {
  const Traits& traits = kTraits[static_cast<int>(variant)];
  return (!traits.hopper_only || major == 9) && (!half || traits.half);
}

// Whether wgmma's tiles would be mostly empty, because planes have few outputs, or because there are few filters and
// channels; with few images, image_bands takes less time nevertheless.
bool leaves_tiles_empty(const fops_conv& c) {
  const int64_t outputs = out_h(c) * out_w(c), pairs = c.C * c.M;
  const bool few_filters = c.M <= 8;
  const bool small_planes = outputs <= 144 &&
                            (c.K <= 5 ? c.C <= 32 && pairs <= 256 : c.C <= 12 && c.M <= 16 && pairs <= 96);
  const bool few_pairs = outputs <= 52 * 52 && c.C <= 4 && few_filters && c.K >= 5;
  return (small_planes || few_pairs) && c.B >= 200 && c.B >= pairs * (c.K <= 5 ? 8 : few_filters ? 10 : 20);
}

// Returns the variant before which channel_quads comes, if this is not its own place at the end: its small mma.sync tiles
// waste little on few filters and outputs.
Variant place_of_channel_quads(const fops_conv& c, bool half, int major) {
  if (major == 9 && !half && c.x_type == FOPS_FLOAT32)
    return leaves_tiles_empty(c) ? Variant::image_bands : Variant::channel_quads;
  const bool few_products = c.C * c.K * c.K <= (c.M <= 24 ? 600 : 320) && (c.C < 32 || c.M <= 16);
  return few_products ? Variant::any_shape : Variant::channel_quads;
}

}  // namespace

// A variant's priority is its place in the table: special variants were measured faster than general ones on nearly all
// shapes that they support. The search stops at the first variant, because each predicate takes microseconds to plan a
// layer's tiles.
Variant choose_variant(const fops_conv& c, bool half, int major, const std::function<bool(Variant)>& takes) {
  const auto runs = [&](Variant variant) { return is_candidate(variant, half, major) && takes(variant); };
  const Variant after_quads = place_of_channel_quads(c, half, major);
  for (int i = 0; i < kVariants; ++i) {
    const Variant variant = static_cast<Variant>(i);
    if (variant == after_quads && runs(Variant::channel_quads)) return Variant::channel_quads;
    if (runs(variant)) return variant;
  }
  return Variant::none;
}

// The shared memory of a block on Hopper that is left for pixels and weights, in bytes.
constexpr size_t kShared = 227 * 1024 - kSharedBytes - kOutgoingBytes - 1024;
constexpr int kMinStages = 2, kPreferredStages = 4, kMaxReach = 8;
constexpr int64_t kMaxStrips = 32,  // maximum strips per task
    kMaxStripsPerImage = 0x7fff;    // maximum for divisions with 16-bit numbers

// Terms of the cost, in cycles, fitted to measurements on an H200 (docs/notebook.md).
constexpr double kEpilogue = 3000;    // storing a task's outputs
constexpr int kPartsOfRows = 2,       // minimum factor of kEpilogue if a task has parts of rows
    kLineStrips = 4;                  // strips whose outputs in a row fill 128 bytes
constexpr double kClusterSum = 4000;  // cluster barrier, and adding the sums of the blocks that share a task
constexpr double kMinProduct = 33;    // minimum time of a wgmma
constexpr double kTwoStages = 1.3;    // factor of a wgmma's time if only two stages of weights fit
// Time per staged pixel and slot.
constexpr double kBeside = 2.2,  // added to the products' time, if threads load the pixel
    kRowsBeside = 1.2,           // added to the products' time, if TMA loads the pixel
    kAlone = 5.3,                // if staging is the bottleneck, without strips
    kStripsAlone = 8;            // if staging is the bottleneck, with strips

// Whether loading rows of pixels by TMA gains more than using its shared memory for longer chunks would.
static bool wants_rows(const fops_conv& c, const Chunks& chunks) {
  return has_rows(c) && chunks.units({0, 8}) >= (many_images_per_row(c) ? 7 : 5);
}

// Returns the number of slots per chunk: enough for eight steps (five with rows by TMA), over which a chunk's overhead
// is spread.
static int slots_per_chunk(const fops_conv& c, const Chunks& chunks) {
  int per_chunk = 2;
  if (!chunks.full) return chunks.rest;
  const int minimum = wants_rows(c, chunks) ? 5 : 8;
  while (per_chunk < 8 && per_chunk / 2 * chunks.units({0, 8}) < minimum) per_chunk *= 2;
  return std::min(per_chunk, chunks.slots());
}

// Returns the number of sums that the kernel completes in chunks begin to end - 1: one per chain, and per segment one
// of the products with a low part.
static int sums_of(const Plan& plan, int begin, int end) {
  int sums = 0;
  for (int chunk = begin, chain = 0; chunk < end; ++chunk) {
    const bool last = chunk == plan.chunk_count - 1, ends = last || (chunk + 1) % plan.segment == 0;
    const int steps = last ? plan.last_steps : plan.first_steps, group = last ? plan.last_group : plan.first_group;
    for (int at = 0; at < steps; at += group) {
      chain += std::min(group, steps - at);
      if (chain + group > plan.chain || (ends && at + group >= steps)) chain = 0, ++sums;
    }
    sums += ends;
  }
  return sums;
}

static int strip_width(const fops_conv& c) { return 8 + static_cast<int>(c.K) - 1; }
static int64_t strips_per_image(const fops_conv& c) { return ceil_div(out_w(c), 8); }

static Strips strips_of(const fops_conv& c, const Choice& choice) {
  if (!choice.strips) return {};
  const int width = strip_width(c), per_image = static_cast<int>(strips_per_image(c));
  const int bands = static_cast<int>(ceil_div(out_h(c), choice.rows));
  const uint32_t inverse_width = inverse_of(width), inverse_all = inverse_of(choice.strips * width);
  return {choice.strips, choice.rows,   width,       per_image,
          bands,         inverse_width, inverse_all, per_image > 1 ? inverse_of(per_image) : 0};
}

static int64_t staged_of(const fops_conv& c, const Choice& choice, int64_t reach) {
  const int64_t below = c.K - 1, eights = choice.eights();
  const int64_t pixels = choice.strips ? (eights + below * choice.strips) * strip_width(c)
                                       : 8 * eights - (choice.tiles == 1 ? reach : 0) + below * c.W + below;
  return ceil_div(pixels, 8) * 8;
}

// Whether two buffers of pixels and the minimum number of stages of weights fit into shared memory, and the numbers of
// staged entries into 14 bits (the width of a descriptor's address).
static bool fits(const Choice& choice, int64_t per_chunk, int64_t staged) {
  const int64_t room = static_cast<int64_t>(kShared), stages = kMinStages * choice.group() * choice.step_bytes();
  return 4 * per_chunk * staged * 16 + stages <= room && per_chunk * staged <= 0x3fff;
}

// Returns the number of slots whose rows of pixels TMA keeps in shared memory: kMaxPieces, 2, or 0 if rows are not
// loaded by TMA. The limit of 2^16 is that of `divide`, by which the threads find a position's image. If a row takes
// many copies, and there are few filters or tasks, the copies take longer than staging by threads.
constexpr uint32_t kManyTasks = 1024;
static int raw_pieces(const fops_conv& c, const Choice& choice, const Plan& plan, int64_t room) {
  const bool many_copies = !plan.by_image && many_images_per_row(c);
  if (!has_rows(c) || c.x_type != FOPS_FLOAT32 || c.H * c.W + plan.staged >= 1 << 16 || choice.strips ||
      choice.columns == kFewColumns || plan.steps <= plan.chain ||
      (many_copies && (plan.tasks < kManyTasks || (choice.taps > 1 && !wants_rows(c, plan.chunks)))))
    return 0;
  const int64_t pieces = room / static_cast<int64_t>(plan.row_bytes());
  return pieces >= kMaxPieces ? kMaxPieces : pieces >= 2 ? 2 : 0;
}

// Returns the number of stages, each for a group of weights, that fit into shared memory together with `buffers`
// buffers of pixels and the plan's pieces of rows.
static int places_left(const Plan& plan, int buffers) {
  const int64_t room = static_cast<int64_t>(kShared), rows = static_cast<int64_t>(plan.pieces * plan.row_bytes());
  const int64_t left = room - rows - buffers * plan.buffer_bytes();
  return static_cast<int>(std::min<int64_t>(kMaxStages, left / plan.group_bytes));
}

bool plan_for(const fops_conv& c, const Choice& choice, int per_chunk, Plan* plan) {
  const int C = static_cast<int>(c.C), K = static_cast<int>(c.K);
  const int64_t room = static_cast<int64_t>(kShared);
  plan->threshold = 0.0f, plan->half = plan->early = false;  // the caller sets these
  Chunks& chunks = plan->chunks = chunks_for(C, K);
  chunks.taps = std::max(1, choice.taps);
  plan->reach = (chunks.taps - 1) * chunks.shift;
  plan->positions = choice.columns - plan->reach;
  if (choice.tiles == 1) plan->positions *= 2;
  const Strips& strips = plan->strips = strips_of(c, choice);
  int64_t staged = staged_of(c, choice, plan->reach);
  chunks.per_chunk = per_chunk > 0 ? per_chunk : slots_per_chunk(c, chunks);
  while (!fits(choice, chunks.per_chunk, staged) && chunks.per_chunk > 1) chunks.per_chunk /= 2;
  if (!fits(choice, chunks.per_chunk, staged)) return false;

  plan->chunk_count = chunks.count();
  plan->first_steps = chunks.steps_of(0);
  plan->last_steps = chunks.steps_of(plan->chunk_count - 1);
  plan->steps = (plan->chunk_count - 1) * plan->first_steps + plan->last_steps;
  plan->chain = max_chain_steps(C * K * K);
  plan->segment = static_cast<int>(ceil_div(kMinSegment, plan->first_steps));
  plan->parts = choice.parts;
  const int maximum = std::min(choice.group(), plan->chain);
  const auto group = [&](int steps) { return static_cast<int>(ceil_div(steps, ceil_div(steps, maximum))); };
  plan->first_group = group(plan->first_steps), plan->last_group = group(plan->last_steps);
  plan->group_bytes = std::max(plan->first_group, plan->last_group) * choice.step_bytes();
  plan->blocks = static_cast<int>(ceil_div(c.M, choice.filters()));
  const int64_t last = (out_h(c) - 1) * c.W + out_w(c);  // number of positions up to an image's last output
  const int64_t by_image = c.B * ceil_div(last, plan->positions);
  const int64_t through = ceil_div((c.B - 1) * c.H * c.W + last, plan->positions);
  int64_t spans = std::min(by_image, through);
  if (strips.together) spans = ceil_div(c.B * strips.per_image, strips.together) * strips.pieces;
  plan->by_image = by_image <= through;
  if (spans * plan->blocks > INT_MAX) return false;
  plan->spans = static_cast<uint32_t>(plan->by_image ? ceil_div(last, plan->positions) : through);
  plan->tasks = static_cast<uint32_t>(spans * plan->blocks);

  const auto sized = [&](int64_t to) {
    staged = ceil_div(staged_of(c, choice, plan->reach), to) * to;
    plan->staged = static_cast<int>(staged), plan->raw_row = static_cast<int>(staged) + 4;
  };
  int wanted = kPreferredStages;
  sized(kLot);
  const auto pieces = [&] {
    return raw_pieces(c, choice, *plan, room - wanted * plan->group_bytes - 2 * plan->buffer_bytes());
  };
  plan->pieces = pieces();
  if (plan->pieces == 2) wanted = kPreferredStages - 1, plan->pieces = pieces();  // four pieces instead of a stage
  if (!plan->pieces) sized(8);
  plan->inverse_staged = inverse_of(static_cast<uint32_t>(staged));
  plan->inverse_pixels = ((uint64_t{1} << 42) + c.H * c.W - 1) / (c.H * c.W);
  plan->inverse_image = inverse_of(static_cast<uint32_t>(c.H * c.W));
  const int64_t left = room - static_cast<int64_t>(plan->pieces * plan->row_bytes());
  plan->buffers = static_cast<int>(
      std::max<int64_t>(2, std::min<int64_t>(kMaxBuffers, (left - wanted * plan->group_bytes) / plan->buffer_bytes())));
  plan->stages = places_left(*plan, plan->buffers);
  plan->kept = 0;
  for (int part = 0; part < plan->parts; ++part)
    plan->kept = std::max(plan->kept, sums_of(*plan, plan->begin(part), plan->begin(part + 1)));
  return true;
}

Steps steps_for(const fops_conv& c, const Plan& plan) {
  const uint32_t width = static_cast<uint32_t>(plan.strips.together ? plan.strips.together * plan.strips.width : c.W);
  const Chunks& chunks = plan.chunks;
  Steps steps;
  for (const int last : {0, 1}) {
    const int chunk = last * (plan.chunk_count - 1);
    const bool as_first = chunks.full_of(chunk) == chunks.full_of(0) && chunks.slots_of(chunk) == chunks.slots_of(0);
    if (last && as_first) {  // a copy saves time: computing these takes as long as choosing the tiling
      std::copy_n(steps.places[0], plan.first_steps, steps.places[1]);
      std::copy_n(steps.origins[0], 2 * plan.first_steps, steps.origins[1]);
      break;
    }
    for (int step = 0; step < chunks.steps_of(chunk); ++step) {
      steps.places[last][step] = place_of(chunks, chunk, step, static_cast<uint32_t>(plan.staged), width);
      for (const int half : {0, 1}) steps.origins[last][2 * step + half] = origin_of(chunks, chunk, step, half);
    }
  }
  return steps;
}

// With few filters, the rows of a tile that would be empty get the filters at other taps, as long as that reduces the
// number of units per row of a filter.
Choice default_choice(const fops_conv& c) {
  // With few products per output, the products of two low parts matter; only stacked tiles compute them.
  const bool stacked = c.M <= 32 || c.C * c.K * c.K < kMinProducts;
  Choice choice = {stacked ? 1 : 0, !stacked && c.M > 64 ? 2 : 1, kMaxColumns, 1};
  Chunks chunks = chunks_for(static_cast<int>(c.C), static_cast<int>(c.K));
  const auto units = [&](int taps) {
    chunks.taps = taps;
    return chunks.full ? chunks.row_units({0, 8}) : chunks.row_units(chunks.slot(0));
  };
  for (int taps = 2; c.M * taps <= 32 && (taps - 1) * chunks.shift <= kMaxReach; taps *= 2)
    if (units(taps) < units(choice.taps)) choice.taps = taps;
  return choice;
}

// Returns the estimated time in cycles: the number of tasks of the busiest SM, times the time of a task. That is the
// time of its products and epilogue, or of its staging if this is longer. A wgmma takes one cycle per two columns, plus
// 12, as measured on layers with many products.
static double cycles(const Choice& choice, const Plan& plan, int sms) {
  const int products = choice.taps > 0 ? 2 : 3, warpgroups = 2, parts = choice.parts, strips = choice.strips;
  const double instructions = static_cast<double>(plan.steps) / parts * products * warpgroups;
  const double product = std::max(kMinProduct, 12.0 + choice.columns / 2) * (plan.stages == 2 ? kTwoStages : 1);
  const double pixels = static_cast<double>(plan.chunks.slots()) * plan.staged / parts;
  const double beside = (plan.pieces ? kRowsBeside : kBeside) * pixels;
  const bool whole_rows = !strips || strips >= plan.strips.per_image;
  const double outputs = kEpilogue * (whole_rows ? 1 : std::max(kPartsOfRows, kLineStrips / strips));
  const double alone = (strips ? kStripsAlone : kAlone) * pixels;
  const double cluster_sum = parts > 1 ? kClusterSum : 0;
  const int64_t rounds = ceil_div(int64_t{plan.tasks} * parts, sms);
  return (std::max(instructions * product + beside + outputs, alone) + cluster_sum) * static_cast<double>(rounds);
}

// Returns `choice` with the cheapest strips and rows for its columns, or without strips if none fit. `without`: the
// plan without strips, which has the same chunks.
static Choice best_strips(const fops_conv& c, Choice choice, const Plan& without, int sms) {
  const int64_t per_image = strips_per_image(c), eights = choice.eights();
  // Limits a task's images, so that offsets in x and y from its first image are below 2^31.
  const int64_t images = INT_MAX / (std::max(c.C, c.M) * c.H * c.W) - 1;
  double minimum = 0;
  Choice best = choice;
  Plan plan = without;  // of its fields, those that the cost depends on are computed again
  plan.pieces = 0;
  // Cuts an image's rows into `cuts` pieces. Skips a number of pieces if a smaller one has the same rows per piece.
  for (int64_t cuts = ceil_div(out_h(c), eights), rows, next; cuts <= out_h(c); cuts = next) {
    rows = ceil_div(out_h(c), cuts), next = rows > 1 ? ceil_div(out_h(c), rows - 1) : out_h(c) + 1;
    const int64_t together = std::min({eights / rows, c.B * per_image, kMaxStrips, images * per_image});
    if (together < 1) break;
    choice.strips = static_cast<int>(together), choice.rows = static_cast<int>(rows);
    plan.strips = strips_of(c, choice);
    plan.staged = static_cast<int>(staged_of(c, choice, 0));
    if (!fits(choice, plan.chunks.per_chunk, plan.staged)) continue;
    plan.stages = places_left(plan, 2);
    plan.tasks = static_cast<uint32_t>(ceil_div(c.B * per_image, together) * plan.strips.pieces * without.blocks);
    const double time = cycles(choice, plan, sms);
    if (!best.strips || time < minimum) minimum = time, best = choice;
  }
  return best;
}

double cost(const Candidate& candidate, int sms) { return cycles(candidate.choice, candidate.plan, sms); }

std::vector<Candidate> tilings(const fops_conv& c, const Plan& plan, int sms) {
  const Choice first = default_choice(c);
  std::vector<Candidate> candidates = {{first, plan}};
  const auto planned = [&](const Choice& choice, Plan* other) {
    return plan_for(c, choice, plan.chunks.per_chunk, other) && other->chunks.per_chunk == plan.chunks.per_chunk;
  };
  const auto add = [&](const Choice& choice) {
    Plan other;
    if (planned(choice, &other)) candidates.push_back({choice, other});
  };
  for (int tiles = first.tiles; tiles > 0; --tiles) {
    for (const int columns : {kMaxColumns, 112, 72}) add({first.taps, tiles, columns, 1});
    Plan without;
    if (first.taps > 1 || c.K == 1 || strips_per_image(c) > kMaxStripsPerImage) continue;
    if (!planned({first.taps, tiles, kMaxColumns, 1}, &without)) continue;
    for (const int columns : {kMaxColumns, 96, kFewColumns}) {
      if (columns == kFewColumns && tiles > 1) continue;
      const Choice strips = best_strips(c, {first.taps, tiles, columns, 1}, without, sms);
      if (strips.strips) add(strips);
    }
  }
  const int segments = static_cast<int>(ceil_div(plan.chunk_count, plan.segment));
  for (int parts = 1; parts <= std::min(segments, kMaxParts); parts *= 2)
    if (parts == 1 || plan.steps > plan.chain) add({first.taps, 1, kFewColumns, parts});
  return candidates;
}

Candidate choose_tiling(const fops_conv& c, const Plan& plan, int sms) {
  const std::vector<Candidate> candidates = tilings(c, plan, sms);
  return *std::min_element(candidates.begin(), candidates.end(),
                           [&](const Candidate& a, const Candidate& b) { return cost(a, sms) < cost(b, sms); });
}

}  // namespace fops::hopper
