// How a sum of n products is divided into parts, so that its rounding error grows with sqrt(n) and not with n.
//
// Each addition rounds, by at most one unit: 2^-24 of the sum of the terms' magnitudes. In one chain of n additions, equal
// terms are all rounded in the same direction: a sum of 6,272 equal terms was wrong by 1,500 units. Therefore the products
// of each part are added one after another, and then the sums of the parts. Whatever the input, a term passes through at
// most kWorst * (4 + sqrt(n)) additions. docs/precision.md allows an error of 4 + sqrt(n) units. Inputs that are not
// constructed to break this bound keep it, because they lose less than a unit per addition (equal terms 0.26 units). The
// exceptions are a few sums of one part whose first term outweighs the rest; docs/precision.md says how many.
//
// With kWorst = 1 the bound would hold for every input, but 25 products would need four parts, which is slow.
// The parts depend only on the shape, so that results do not depend on threads, batches or caches.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>

namespace fops {

// Returns the number of products per part of a sum of n products. It is a multiple of `unit`, and at most `longest` unless
// n exceeds 4 * longest^2.
inline int64_t part_of_sum(int64_t n, int64_t unit = 1, int64_t longest = INT64_MAX) {
  constexpr double kWorst = 3.5;
  const double root = std::sqrt(static_cast<double>(n)), most = kWorst * (4 + root);
  const auto additions = [n](int64_t part) { return part + (n + part - 1) / part - 1; };
  // Looks for the longest part with at most `most` additions, because the end of each part costs time. Half of sqrt(n)
  // products are always few enough.
  const int64_t room = std::max(longest, static_cast<int64_t>(std::ceil(root / 2)));
  int64_t part = std::min({n, room, static_cast<int64_t>(most)}) / unit * unit;
  while (part > unit && additions(part) > most) part -= unit;
  const int64_t parts = (n + part - 1) / part;  // number of parts, which get nearly equal lengths
  return (n / unit + parts - 1) / parts * unit;
}

}  // namespace fops
