// Whether the product of positive sizes is at most a limit.
#pragma once

#include <cstdint>
#include <initializer_list>

namespace fops {

inline bool within(int64_t limit, std::initializer_list<int64_t> sizes) {
  for (const int64_t size : sizes) {
    if (size > limit) return false;
    limit /= size;
  }
  return true;
}

}  // namespace fops
