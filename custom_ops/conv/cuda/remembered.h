// What was worked out for a layer, kept for its next call: a network asks for the same layers again and again. Of one
// image, 16 to 64 channels, 3x3, 14x14, a call took 9.9 us, 7.8 with this, of which the kernel takes 5.2.
#pragma once

#include <cuda_runtime.h>

#include <array>
#include <cstddef>
#include <vector>

#include "fashion_ops.h"

namespace fops {

// Answers to one question, which is asked of a layer on the current device: for each of the layers asked for last, and
// for each `kind` of the question. A thread keeps its own.
template <typename Answer>
class Remembered {
 public:
  // The answer, by `work_out` unless it is known. Valid until the next call.
  template <typename WorkOut>
  const Answer& of(const fops_conv& layer, int kind, const WorkOut& work_out) {
    if (entries_.empty()) entries_.resize(kEntries);
    const Key key = {{layer.B, layer.C, layer.H, layer.W, layer.M, layer.K, layer.x_type, device_or_none(), kind}};
    size_t hash = 0;
    for (const int64_t word : key) hash = (hash ^ static_cast<size_t>(word)) * 0x9e3779b97f4a7c15u;
    Entry& entry = entries_[hash >> 32 & (kEntries - 1)];
    if (!entry.known || entry.key != key) {
      entry.known = false;  // should `work_out` throw
      entry.answer = work_out(), entry.key = key, entry.known = true;
    }
    return entry.answer;
  }

 private:
  static constexpr size_t kEntries = 32;
  static int device_or_none() {
    int device = -1;
    if (cudaGetDevice(&device) != cudaSuccess) cudaGetLastError(), device = -1;
    return device;
  }
  using Key = std::array<int64_t, 9>;
  struct Entry {
    bool known = false;
    Key key;
    Answer answer;
  };
  std::vector<Entry> entries_;
};

}  // namespace fops
