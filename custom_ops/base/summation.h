// How a sum of n products is cut into parts, so that its rounding error stays in proportion to sqrt(n).
//
// A term is rounded by every addition that it passes through, by at most 2^-24 of the sum of magnitudes each time. In
// one chain that is up to n additions, and equal terms all round the same way: 6,272 equal terms were off by 1,500 such
// units. So the products of a part are added one after another, and then the parts: a term passes through no more than
// kWorst * (4 + sqrt(n)) additions, whatever the input. Inputs not made against it stay within the 4 + sqrt(n) of
// docs/precision.md: equal terms lose 0.26 units per addition. A few sums of one part whose first term outweighs the
// rest do not; docs/precision.md says how many.
//
// With kWorst = 1 the bound would hold for every input, but 25 products would need four parts, which costs the course's
// convolutions 8 to 19% (one AVX-512 core). 3.5 keeps 25 products in one part and cuts 588 into 7.
//
// The parts follow from the shape alone, not from threads, batches or caches: results must not depend on those.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>

namespace fops {

// Products per part, of n in all: whole `units`, and at most `longest` unless n exceeds 4 * longest^2.
inline int64_t part_of_sum(int64_t n, int64_t unit = 1, int64_t longest = INT64_MAX) {
  constexpr double kWorst = 3.5;
  const double root = std::sqrt(static_cast<double>(n)), most = kWorst * (4 + root);
  const auto additions = [n](int64_t part) { return part + (n + part - 1) / part - 1; };
  // The longest part that suffices, because each part's end costs an addition. Half of sqrt(n) always suffices.
  const int64_t room = std::max(longest, static_cast<int64_t>(std::ceil(root / 2)));
  int64_t part = std::min({n, room, static_cast<int64_t>(most)}) / unit * unit;
  while (part > unit && additions(part) > most) part -= unit;
  const int64_t parts = (n + part - 1) / part;  // parts of nearly equal length
  return (n / unit + parts - 1) / parts * unit;
}

}  // namespace fops
