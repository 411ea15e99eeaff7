// Sizes as MXNet's symbols write them.
#pragma once

#include <cstdlib>
#include <string>
#include <vector>

namespace fops {

// The integers in "(5, 5)", "[5,5]" or "5"; false when there is anything else, or none.
inline bool integers(const std::string& value, std::vector<long>* out) {
  const char* p = value.c_str();
  out->clear();
  while (*p) {
    if (*p == '(' || *p == '[' || *p == ')' || *p == ']' || *p == ',' || *p == ' ') {
      ++p;
      continue;
    }
    char* end;
    const long n = strtol(p, &end, 10);
    if (end == p) return false;
    out->push_back(n);
    p = *end == 'L' ? end + 1 : end;  // symbols written under Python 2 say (5L, 5L)
  }
  return !out->empty();
}

}  // namespace fops
