// Code of the GPU part, compiled as plain C++: the choices of conv/hopper/choose.cpp and gpu/divide.cuh's quotients. The
// argument is the seed of the random numbers.
#include "conv/hopper/choose.h"
#include "gpu/divide.cuh"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <random>
#include <vector>

using namespace fops::hopper;

namespace {

// kHopper: bits of the variants that need wgmma. kHalf: bits of the variants that have a half-precision kernel.
constexpr unsigned bit(Variant v) { return 1u << static_cast<int>(v); }
constexpr unsigned kHopper = bit(Variant::shifted_filters) | bit(Variant::output_row_pairs) |
    bit(Variant::column_major_tiles) | bit(Variant::register_weights) |
    bit(Variant::warpgroup_images) | bit(Variant::image_bands);
constexpr unsigned kHalf = bit(Variant::shifted_filters) | bit(Variant::quad_columns) | bit(Variant::pixel_columns) |
    bit(Variant::any_shape) | bit(Variant::channel_quads);

// The variant that runs a convolution is one that supports it, and a special one before a general one.
void check_variants(std::mt19937& random) {
  const auto below = [&](int n) { return static_cast<int>(random() % n); };
  for (int i = 0; i < 200000; ++i) {
    const int side = 10 + below(60);
    const fops_conv c{1 + below(9), 1 + below(70), side, side, 1 + below(70), 1 + below(9),
                      below(2) ? FOPS_FLOAT32 : FOPS_UINT8};
    const bool half = below(2);
    const int major = 8 + below(3);
    const unsigned taken = below(1 << kVariants) & below(1 << kVariants);
    unsigned allowed = taken;
    if (major != 9) allowed &= ~kHopper;
    if (half) allowed &= kHalf;
    const Variant chosen =
        choose_variant(c, half, major, [&](Variant v) { return (taken & bit(v)) != 0; });
    const auto fail = [&](const char* why) {
      std::printf("%s: chosen %d of %x, C %d M %d K %d half %d major %d\n", why, static_cast<int>(chosen), allowed,
                  static_cast<int>(c.C), static_cast<int>(c.M), static_cast<int>(c.K), half, major);
      std::exit(1);
    };
    if (chosen == Variant::none) {
      if (allowed) fail("none of several");
      continue;
    }
    if (!(allowed & bit(chosen))) fail("does not run this");
    // With wgmma, whose tiles may be mostly empty, channel_quads may precede the special variants.
    const unsigned general = bit(Variant::any_shape) | bit(Variant::channel_quads);
    const bool wgmma = major == 9 && !half && c.x_type == FOPS_FLOAT32;
    if (!wgmma && (allowed & ~general) && (general & bit(chosen))) fail("a general variant before a special one");
  }
}

// The chosen tiling is the cheapest; each adds in the same order, fits, and covers all weights and outputs.
void check_tilings(std::mt19937& random) {
  const auto from = [&](int a, int b) { return a + static_cast<int>(random() % (b - a + 1)); };
  int planned = 0, strips = 0, shared_depth = 0, taps = 0;
  for (int i = 0; i < 1500; ++i) {
    const int K = from(1, 11), C = from(0, 3) ? from(1, 40) : from(40, 300);
    const int M = from(0, 2) ? from(1, 40) : from(33, 300);
    const int H = K + from(0, 40), W = K + from(0, 40), B = from(0, 1) ? from(1, 8) : from(9, 2000);
    const fops_conv c{B, C, H, W, M, K, FOPS_FLOAT32};
    const int sms = from(0, 1) ? 132 : from(1, 200);
    const auto fail = [&](const char* why) {
      std::printf("%s: B %d C %d H %d W %d M %d K %d, %d SMs\n", why, B, C, H, W, M, K, sms);
      std::exit(1);
    };
    Plan usual;
    if (C * K * K < 16 || !plan_for(c, default_choice(c), 0, &usual)) continue;
    ++planned;
    const std::vector<Candidate> candidates = tilings(c, usual, sms);
    const Candidate chosen = choose_tiling(c, usual, sms);
    double cheapest = 1e300;
    for (const Candidate& candidate : candidates) cheapest = std::min(cheapest, cost(candidate, sms));
    if (!(cheapest > 0) || cost(chosen, sms) != cheapest) fail("not the cheapest");
    for (const Candidate& candidate : candidates) {
      const Plan& plan = candidate.plan;
      const Chunks& chunks = plan.chunks;
      // All candidates add in the same order, so that an output has the same bits in every batch.
      if (plan.chain != usual.chain || plan.segment != usual.segment || chunks.per_chunk != usual.chunks.per_chunk ||
          plan.first_group != usual.first_group || plan.last_group != usual.last_group)
        fail("another order of sums");
      const int64_t bytes = kSharedBytes + kOutgoingBytes + int64_t{plan.stages} * plan.group_bytes +
                            plan.buffers * plan.buffer_bytes() + static_cast<int64_t>(plan.pieces * plan.row_bytes());
      if (bytes > 227 * 1024 || plan.stages < 2 || plan.stages > kMaxStages || plan.buffers < 2 ||
          plan.buffers > kMaxBuffers)
        fail("does not fit into shared memory");
      // The units of all chunks and steps contain each weight exactly once.
      std::vector<int> met(C * K * K);
      int steps = 0;
      for (int chunk = 0; chunk < chunks.count(); ++chunk)
        for (int step = 0; step < chunks.steps_of(chunk); ++step, ++steps)
          for (int half = 0; half < 2; ++half) {
            Unit unit;
            if (!chunks.unit_at(chunk, step, half, &unit)) continue;
            for (int tap = 0; tap < chunks.taps; ++tap)
              for (int e = 0; e < 8; ++e) {
                const int channel = unit.slot.channel + e % unit.slot.channels;
                const int q = unit.q + tap * chunks.shift + e / unit.slot.channels;
                if (channel < C && q < K) ++met[(channel * K + unit.p) * K + q];
              }
          }
      if (std::count(met.begin(), met.end(), 1) != C * K * K || steps != plan.steps) fail("a weight is not met once");
      // The tasks cover all filters and all positions of outputs.
      if (plan.blocks * candidate.choice.filters() < M) fail("filters are left out");
      const int64_t spans = plan.tasks / plan.blocks, last = (fops::out_h(c) - 1) * W + fops::out_w(c);
      if (const Strips& s = plan.strips; s.together) {
        ++strips;
        if (8 * s.per_image < fops::out_w(c) || s.rows * s.pieces < fops::out_h(c) ||
            spans / s.pieces * s.together < B * s.per_image || s.rows * s.together > candidate.choice.eights())
          fail("strips leave outputs out");
      } else if (plan.by_image ? spans < B * int64_t{plan.spans} || int64_t{plan.spans} * plan.positions < last
                               : spans * plan.positions < int64_t{B - 1} * H * W + last) {
        fail("positions are left out");
      }
      shared_depth += plan.parts > 1, taps += chunks.taps > 1;
    }
  }
  if (!planned || !strips || !shared_depth || !taps) std::puts("some kinds of tilings were not drawn"), std::exit(1);
}

// Divisions by multiplication give the quotients of the operator `/`.
void check_quotients(std::mt19937& random) {
  const auto wrong = [](const char* what, uint32_t n, uint32_t d) {
    std::printf("%s: %u / %u\n", what, n, d);
    std::exit(1);
  };
  for (int i = 0; i < 3000000; ++i) {
    // Divisors of all sizes. The numbers are random, or near multiples of the divisor, where the quotient changes.
    const uint32_t d = std::max<uint32_t>(1, (random() >> 1) >> random() % 31);
    const fops::Divisor by(d);
    const uint32_t any = random() >> 1, multiple = any / d * d;
    for (uint32_t n : {any, multiple, multiple ? multiple - 1 : 0, 0x7fffffffu, d, d - 1})
      if (by.divide(n) != n / d) wrong("Divisor", n, d);
    const uint32_t small = 2 + random() % 65534, m = random() % 65536, around = m / small * small;
    for (uint32_t n : {m, around, around ? around - 1 : 0, 65535u})
      if (fops::divide(n, fops::inverse_of(small)) != int(n / small)) wrong("divide", n, small);
  }
}

}  // namespace

int main(int, char** arguments) {
  std::mt19937 random(std::atoi(arguments[1]));
  check_variants(random);
  check_tilings(random);
  check_quotients(random);
}
