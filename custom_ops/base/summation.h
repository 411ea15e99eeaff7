// How a sum of n products is cut into parts, so that its rounding error stays in proportion to sqrt(n).
//
// What a term contributes is rounded by every addition that it passes through, by at most 2^-24 of the sum of magnitudes
// each time. One chain of n additions is n of them, and where the terms are alike they all round the same way: 6,272
// equal terms were wrong by 1,500 such units. So the products of a part are added one after another, and then the parts:
// a term passes through no more than kWorst * (4 + sqrt(n)) additions, whatever the input. Inputs that are not made for
// it keep within the 4 + sqrt(n) of docs/precision.md: equal terms come to 0.26 of their additions. Of sums that are one
// part and whose first term outweighs the rest a few do not; docs/precision.md says how many.
//
// With kWorst = 1 that would be a limit for every input. It costs the course's convolutions 8 to 19% (25 products need
// four parts then; one AVX-512 core); 3.5 leaves 25 products in one part, and makes 7 of 588.
//
// The parts follow from the shape alone, not from threads, batches or caches: results must not depend on those.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>

namespace fops {

// Products a part, of n in all: whole `units`, and at most `longest` unless n is beyond 4 * longest^2.
inline int64_t part_of_sum(int64_t n, int64_t unit = 1, int64_t longest = INT64_MAX) {
  constexpr double kWorst = 3.5;
  const double root = std::sqrt(static_cast<double>(n)), most = kWorst * (4 + root);
  const auto additions = [n](int64_t part) { return part + (n + part - 1) / part - 1; };
  // The longest part that will do, for each part's end costs an addition. Half of sqrt(n) always does.
  const int64_t room = std::max(longest, static_cast<int64_t>(std::ceil(root / 2)));
  int64_t part = std::min({n, room, static_cast<int64_t>(most)}) / unit * unit;
  while (part > unit && additions(part) > most) part -= unit;
  const int64_t parts = (n + part - 1) / part;  // of nearly equal length
  return (n / unit + parts - 1) / parts * unit;
}

}  // namespace fops
