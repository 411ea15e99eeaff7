// Reads the attributes of MXNet's symbols, which are text, for example "(5, 5)" for a size.
#pragma once

#include <cstdlib>
#include <string>
#include <unordered_map>
#include <vector>

namespace fops {

using Attributes = std::unordered_map<std::string, std::string>;

inline std::string attribute(const Attributes& attributes, const char* name, const char* otherwise) {
  const auto found = attributes.find(name);
  return found == attributes.end() ? otherwise : found->second;
}

// Writes the integers of a value such as "(5, 5)", "[5,5]" or "5" to *out. Returns false if the value has other text, or no
// integer.
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
    p = *end == 'L' ? end + 1 : end;  // symbols written with Python 2 contain (5L, 5L)
  }
  return !out->empty();
}

}  // namespace fops
