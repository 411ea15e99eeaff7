// A plan's weights on the device: as given, and rearranged ("packed") for the kernels that need another layout.
#pragma once

#include <vector>

#include "gpu/memory.h"
#include "net/cuda/kernels/conv_pool/conv_pool.h"
#include "net/cuda/kernels/dense/dense.h"
#include "net/cuda/kernels/stages.h"
#include "net/executor.h"

namespace fops {

struct StageWeights {
  const float* w = nullptr;     // as given, not packed
  const float* bias = nullptr;  // null if the stage has no bias
  bool packed_pixels = false;   // whether `pixels` is set
  PixelWeights pixels;
  bool packed_conv_pool = false;  // whether `conv_pool` is set
  ConvPoolWeights conv_pool;
  bool packed_dense = false;  // whether `dense` is set
  DenseWeights dense;
  double sum = 0.0;           // largest sum of |w| over a filter's or unit's weights
  double bias_largest = 0.0;  // largest |bias|
};

class DeviceWeights {
 public:
  // Must be called first. Allocates no device memory. `matrix_units`: whether the device has matrix units (route.h).
  void open(const Plan& plan, bool matrix_units);

  // Whether the version of any weight that a stage reads differs from the version held here.
  bool differs(const std::vector<Weight>& given) const;
  // Uploads and packs the weights that changed, on `stream`, and waits for `stream`. No pass may be running.
  fops_status take(std::vector<Weight> given, cudaStream_t stream);

  const std::vector<StageWeights>& stages() const { return stages_; }

 private:
  struct Held {
    bool there = false;
    uint64_t version = 0;
  };

  std::vector<bool> changed(const std::vector<Weight>& given) const;
  fops_status lay_out(size_t stage, const std::vector<Weight>& given, cudaStream_t stream);

  const Plan* plan_ = nullptr;
  bool matrix_units_ = false;
  std::vector<Held> held_;            // indexed by input: which version memory_ holds, if any
  std::vector<DeviceMemory> memory_;  // indexed by input: the weights as given
  std::vector<DeviceMemory> packed_;  // indexed by stage: weights packed for the stage's kernel
  std::vector<StageWeights> stages_;
};

}  // namespace fops
