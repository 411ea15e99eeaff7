// Any shape on Hopper: how a call's work is cut into tasks, and the cost by which one way is chosen.
#pragma once

#include <algorithm>
#include <climits>

#include "conv/cuda/12_tensor_core/any_shape/kernel.cuh"
#include "conv/cuda/12_tensor_core/any_shape/launch.h"
#include "conv/cuda/12_tensor_core/tensor_core.h"
#include "conv/cuda/kernels.h"

namespace fops {
namespace any_shape {

constexpr size_t kShared = 227 * 1024 - sizeof(Shared) - kOutgoingBytes - 1024;  // what Hopper gives a block
constexpr int kLeastRing = 2, kWantedRing = 4, kMostReach = 8;
constexpr int64_t kMostStrips = 32, kMostStripsAnImage = 0x7fff;  // side by side; their number has 16 bits
// What the cost of a way is made of, in cycles: fitted to 13,000 ways of 970 layers on an H200 (docs/notebook.md).
// A task's outputs; so many times that where they are parts of rows. Four strips' outputs in a row are a line of 128
// bytes: of fewer strips lines are written in parts.
constexpr double kEpilogue = 3000;
constexpr int kPartsOfRows = 2, kLineStrips = 4;
// A meeting of the blocks that share a task; a product at least, however few its columns.
constexpr double kMeeting = 4000, kLeastProduct = 33;
// A product takes so many times as long where only two groups of weights fit into shared memory: 64 to 128, 7x7, 28x28
// 25.8 ms, with four 18.9.
constexpr double kTwoGroups = 1.3;
// A staged pixel of a slot: what it takes from the products, and, brought by the copy engine; where nothing else takes as
// long, and, of strips.
constexpr double kBeside = 2.2, kRowsBeside = 1.2, kAlone = 5.3, kStripsAlone = 8;

// Whether rows are worth room in shared memory, which chunks of fewer steps leave.
inline bool wants_rows(const fops_conv& c, const Chunks& chunks) {
  return has_rows(c) && chunks.units({0, 8}) >= (many_images_a_row(c) ? 7 : 5);
}

// Slots of a chunk: for at least eight steps, or five, so that what a chunk costs beside them is spread out.
inline int slots_a_chunk(const fops_conv& c, const Chunks& chunks) {
  int a_chunk = 2;
  if (!chunks.full) return chunks.rest;
  const int least = wants_rows(c, chunks) ? 5 : 8;
  while (a_chunk < 8 && a_chunk / 2 * chunks.units({0, 8}) < least) a_chunk *= 2;
  return std::min(a_chunk, chunks.slots());
}

// The chains of some chunks, and their segments' small products: what the kernel's loop closes.
inline int sums_of(const Plan& plan, int begin, int end) {
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

inline int strip_width(const fops_conv& c) { return 8 + static_cast<int>(c.K) - 1; }
inline int64_t strips_an_image(const fops_conv& c) { return ceil_div(out_w(c), 8); }

// The strips of a choice; none where it has none.
inline Strips strips_of(const fops_conv& c, const Choice& choice) {
  if (!choice.strips) return {};
  const int width = strip_width(c), an_image = static_cast<int>(strips_an_image(c));
  return {choice.strips, choice.rows, width, an_image, static_cast<int>(ceil_div(out_h(c), choice.rows)),
          inverse_of(width), inverse_of(choice.strips * width), an_image > 1 ? inverse_of(an_image) : 0};
}

// Pixels staged for a task, of a slot.
inline int64_t staged_of(const fops_conv& c, const Choice& choice, int64_t reach) {
  const int64_t below = c.K - 1, eights = choice.eights();
  const int64_t pixels = choice.strips ? (eights + below * choice.strips) * strip_width(c)
                                       : 8 * eights - (choice.tiles == 1 ? reach : 0) + below * c.W + below;
  return ceil_div(pixels, 8) * 8;
}

// Whether two buffers and the ring fit, and the numbers of steps: 14 bits for a distance, 16 for a place.
inline bool fits(const Choice& choice, int64_t a_chunk, int64_t staged) {
  const int64_t room = static_cast<int64_t>(kShared), ring = kLeastRing * choice.group() * choice.step_bytes();
  return 4 * a_chunk * staged * 16 + ring <= room && a_chunk * staged <= 0x3fff;
}

// Of how many slots there is room for rows that the copy engine brings, 16 bytes at a time: kMostPieces, two or none.
// Threads divide positions of the task, images before it included, by an image's pixels. Many copies a row take longer
// than staging where filters or tasks are few (128 to 4, 5x5, 14x14, 100 images: 32 us, without rows 26).
constexpr uint32_t kManyTasks = 1024;
inline int raw_pieces(const fops_conv& c, const Choice& choice, const Plan& plan, int64_t room) {
  const bool many_copies = !plan.by_image && many_images_a_row(c);
  if (!has_rows(c) || c.x_type != FOPS_FLOAT32 || c.H * c.W + plan.staged >= 1 << 16 || choice.strips ||
      choice.columns == kFewColumns || plan.steps <= plan.chain ||
      (many_copies && (plan.tasks < kManyTasks || (choice.taps > 1 && !wants_rows(c, plan.chunks)))))
    return 0;
  const int64_t pieces = room / static_cast<int64_t>(plan.row_bytes());
  return pieces >= kMostPieces ? kMostPieces : pieces >= 2 ? 2 : 0;
}

// Groups of weights that fit into shared memory beside so many buffers of pixels and the plan's pieces of rows.
inline int places_left(const Plan& plan, int buffers) {
  const int64_t room = static_cast<int64_t>(kShared), rows = static_cast<int64_t>(plan.pieces * plan.row_bytes());
  const int64_t left = room - rows - buffers * plan.buffer_bytes();
  return static_cast<int>(std::min<int64_t>(kMostRing, left / plan.group_bytes));
}

// False where the pixels of a task do not fit into shared memory, however few channels are staged at a time. `a_chunk`:
// slots of a chunk, 0 for as many as fit.
inline bool plan_for(const fops_conv& c, const Choice& choice, int a_chunk, Plan* plan) {
  const int C = static_cast<int>(c.C), K = static_cast<int>(c.K);
  const int64_t room = static_cast<int64_t>(kShared);
  Chunks& chunks = plan->chunks = chunks_for(C, K);
  chunks.taps = std::max(1, choice.taps);
  plan->reach = (chunks.taps - 1) * chunks.shift;
  plan->positions = choice.columns - plan->reach;
  if (choice.tiles == 1) plan->positions *= 2;
  const Strips& strips = plan->strips = strips_of(c, choice);
  int64_t staged = staged_of(c, choice, plan->reach);
  chunks.a_chunk = a_chunk > 0 ? a_chunk : slots_a_chunk(c, chunks);
  while (!fits(choice, chunks.a_chunk, staged) && chunks.a_chunk > 1) chunks.a_chunk /= 2;
  if (!fits(choice, chunks.a_chunk, staged)) return false;

  plan->chunk_count = chunks.count();
  plan->first_steps = chunks.steps_of(0);
  plan->last_steps = chunks.steps_of(plan->chunk_count - 1);
  plan->steps = (plan->chunk_count - 1) * plan->first_steps + plan->last_steps;
  plan->chain = longest_chain(C * K * K);
  plan->segment = static_cast<int>(ceil_div(kLeastSegment, plan->first_steps));
  plan->parts = choice.parts;
  const int most = std::min(choice.group(), plan->chain);
  const auto group = [&](int steps) { return static_cast<int>(ceil_div(steps, ceil_div(steps, most))); };
  plan->first_group = group(plan->first_steps), plan->last_group = group(plan->last_steps);
  plan->group_bytes = std::max(plan->first_group, plan->last_group) * choice.step_bytes();
  plan->blocks = static_cast<int>(ceil_div(c.M, choice.filters()));
  const int64_t last = (out_h(c) - 1) * c.W + out_w(c);  // positions up to an image's last output
  const int64_t by_image = c.B * ceil_div(last, plan->positions);
  const int64_t through = ceil_div((c.B - 1) * c.H * c.W + last, plan->positions);
  int64_t spans = std::min(by_image, through);
  if (strips.together) spans = ceil_div(c.B * strips.an_image, strips.together) * strips.pieces;
  plan->by_image = by_image <= through;
  if (spans * plan->blocks > INT_MAX) return false;
  plan->spans = static_cast<uint32_t>(plan->by_image ? ceil_div(last, plan->positions) : through);
  plan->tasks = static_cast<uint32_t>(spans * plan->blocks);

  const auto sized = [&](int64_t to) {
    staged = ceil_div(staged_of(c, choice, plan->reach), to) * to;
    plan->staged = static_cast<int>(staged), plan->raw_row = static_cast<int>(staged) + 4;
  };
  int wanted = kWantedRing;
  sized(kLot);
  const auto pieces = [&] {
    return raw_pieces(c, choice, *plan, room - wanted * plan->group_bytes - 2 * plan->buffer_bytes());
  };
  plan->pieces = pieces();
  if (plan->pieces == 2) wanted = kWantedRing - 1, plan->pieces = pieces();  // four of them are worth a place less
  if (!plan->pieces) sized(8);
  plan->inverse_staged = inverse_of(static_cast<uint32_t>(staged));
  plan->inverse_pixels = ((uint64_t{1} << 42) + c.H * c.W - 1) / (c.H * c.W);
  plan->inverse_image = inverse_of(static_cast<uint32_t>(c.H * c.W));
  const int64_t left = room - static_cast<int64_t>(plan->pieces * plan->row_bytes());
  plan->buffers = static_cast<int>(
      std::max<int64_t>(2, std::min<int64_t>(kMostBuffers, (left - wanted * plan->group_bytes) / plan->buffer_bytes())));
  plan->ring = places_left(*plan, plan->buffers);
  plan->kept = 0;
  for (int part = 0; part < plan->parts; ++part)
    plan->kept = std::max(plan->kept, sums_of(*plan, plan->begin(part), plan->begin(part + 1)));
  plan->threshold = least_scaled(static_cast<float>(C * K * K));
  return true;
}

// Where the units of a plan's steps lie.
inline Steps steps_for(const fops_conv& c, const Plan& plan) {
  const uint32_t width = static_cast<uint32_t>(plan.strips.together ? plan.strips.together * plan.strips.width : c.W);
  const Chunks& chunks = plan.chunks;
  Steps steps;
  for (const int last : {0, 1}) {
    const int chunk = last * (plan.chunk_count - 1);
    const bool as_first = chunks.full_of(chunk) == chunks.full_of(0) && chunks.slots_of(chunk) == chunks.slots_of(0);
    if (last && as_first) {  // working it out takes as long as all of `choose`
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

// The usual way. Rows that few filters leave are for other taps, as long as a filter's row takes fewer steps then.
inline Choice usual(const fops_conv& c) {
  // Of few products the one of two low halves shows: only stacked tiles make it.
  const bool stacked = c.M <= 32 || c.C * c.K * c.K < kLeastProducts;
  Choice choice = {stacked ? 1 : 0, !stacked && c.M > 64 ? 2 : 1, kMostColumns, 1};
  Chunks chunks = chunks_for(static_cast<int>(c.C), static_cast<int>(c.K));
  const auto units = [&](int taps) {
    chunks.taps = taps;
    return chunks.full ? chunks.row_units({0, 8}) : chunks.row_units(chunks.slot(0));
  };
  for (int taps = 2; c.M * taps <= 32 && (taps - 1) * chunks.shift <= kMostReach; taps *= 2)
    if (units(taps) < units(choice.taps)) choice.taps = taps;
  return choice;
}

// About how many cycles a way takes: tasks of the busiest multiprocessor, times a task's products and what else it does,
// or its staging where that takes longer. An instruction takes a cycle for two columns; with 12 more the sum is what was
// measured of deep layers.
inline double cycles(const Choice& choice, const Plan& plan, int multiprocessors) {
  const int products = choice.taps > 0 ? 2 : 3, warpgroups = 2, parts = choice.parts, strips = choice.strips;
  const double instructions = static_cast<double>(plan.steps) / parts * products * warpgroups;
  const double product = std::max(kLeastProduct, 12.0 + choice.columns / 2) * (plan.ring == 2 ? kTwoGroups : 1);
  const double pixels = static_cast<double>(plan.chunks.slots()) * plan.staged / parts;
  const double beside = (plan.pieces ? kRowsBeside : kBeside) * pixels;
  const bool whole_rows = !strips || strips >= plan.strips.an_image;
  const double outputs = kEpilogue * (whole_rows ? 1 : std::max(kPartsOfRows, kLineStrips / strips));
  const double alone = (strips ? kStripsAlone : kAlone) * pixels;
  const double meeting = parts > 1 ? kMeeting : 0;
  const int64_t rounds = ceil_div(int64_t{plan.tasks} * parts, multiprocessors);
  return (std::max(instructions * product + beside + outputs, alone) + meeting) * static_cast<double>(rounds);
}

// Of tasks of strips with so many columns the fastest cut by `cycles`; none where none fits. `usual`: the plan without
// strips, whose chunks they stage.
inline Choice best_strips(const fops_conv& c, Choice choice, const Plan& usual, int multiprocessors) {
  const int64_t an_image = strips_an_image(c), eights = choice.eights();
  // Places in x and y are below 2^31, counted from a task's first image.
  const int64_t images = INT_MAX / (std::max(c.C, c.M) * c.H * c.W) - 1;
  double least = 0;
  Choice best = choice;
  Plan plan = usual;  // what the cost asks of it is worked out again
  plan.pieces = 0;
  // An image's rows cut in so many: of cuts that give tasks of as many rows only the first.
  for (int64_t cuts = ceil_div(out_h(c), eights), rows, next; cuts <= out_h(c); cuts = next) {
    rows = ceil_div(out_h(c), cuts), next = rows > 1 ? ceil_div(out_h(c), rows - 1) : out_h(c) + 1;
    const int64_t together = std::min({eights / rows, c.B * an_image, kMostStrips, images * an_image});
    if (together < 1) break;
    choice.strips = static_cast<int>(together), choice.rows = static_cast<int>(rows);
    plan.strips = strips_of(c, choice);
    plan.staged = static_cast<int>(staged_of(c, choice, 0));
    if (!fits(choice, plan.chunks.a_chunk, plan.staged)) continue;
    plan.ring = places_left(plan, 2);
    plan.tasks = static_cast<uint32_t>(ceil_div(c.B * an_image, together) * plan.strips.pieces * usual.blocks);
    const double time = cycles(choice, plan, multiprocessors);
    if (!best.strips || time < least) least = time, best = choice;
  }
  return best;
}

// The fastest way by `cycles`; all stage the same chunks as the usual one, whose plan is given.
inline Choice choose(const fops_conv& c, int multiprocessors, Plan* plan) {
  const Choice way = usual(c);
  const Plan first = *plan;
  Choice best = way;
  double least = cycles(best, *plan, multiprocessors);
  const int segments = static_cast<int>(ceil_div(first.chunk_count, first.segment));
  const auto planned = [&](const Choice& choice, Plan* other) {
    return plan_for(c, choice, first.chunks.a_chunk, other) && other->chunks.a_chunk == first.chunks.a_chunk;
  };
  const auto consider = [&](const Choice& choice) {
    Plan other;
    if (!planned(choice, &other)) return;
    if (const double time = cycles(choice, other, multiprocessors); time < least)
      least = time, best = choice, *plan = other;
  };
  for (int tiles = way.tiles; tiles > 0; --tiles) {
    for (const int columns : {kMostColumns, 112, 72}) consider({way.taps, tiles, columns, 1});
    Plan without;
    if (way.taps > 1 || c.K == 1 || strips_an_image(c) > kMostStripsAnImage) continue;
    if (!planned({way.taps, tiles, kMostColumns, 1}, &without)) continue;
    for (const int columns : {kMostColumns, 96, kFewColumns}) {
      if (columns == kFewColumns && tiles > 1) continue;
      const Choice strips = best_strips(c, {way.taps, tiles, columns, 1}, without, multiprocessors);
      if (strips.strips) consider(strips);
    }
  }
  for (int parts = 1; parts <= std::min(segments, kMostParts); parts *= 2)
    if (parts == 1 || first.steps > first.chain) consider({way.taps, 1, kFewColumns, parts});
  return best;
}

}  // namespace any_shape
}  // namespace fops
