// A plan's weights on the device: the originals, and layouts for the kernels that read them.
#pragma once

#include <vector>

#include "gpu/memory.h"
#include "net/cuda/kernels/conv_pool/conv_pool.h"
#include "net/cuda/kernels/dense/dense.h"
#include "net/cuda/kernels/stages.h"
#include "net/executor.h"

namespace fops {

// A stage's weights on the device.
struct StageWeights {
  const float* w = nullptr;     // original
  const float* bias = nullptr;  // or null
  bool packed_pixels = false;   // whether `pixels` is set
  PixelWeights pixels;
  bool packed_conv_pool = false;
  ConvPoolWeights conv_pool;
  bool packed_dense = false;
  DenseWeights dense;
  double sum = 0.0;             // largest sum of a filter's or unit's |w|; largest |bias|
  double bias_largest = 0.0;
};

class DeviceWeights {
 public:
  // Allocates memory for the plan's weights. `matrix_units`: whether the device has matrix units (route.h).
  void open(const Plan& plan, bool matrix_units);

  // Whether any weight that a stage reads differs, by its version, from the one held here.
  bool differs(const std::vector<Weight>& given) const;
  // Uploads and lays out the weights that changed, on `stream`, and waits. No pass with the old weights may be running.
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
  std::vector<Held> held_;             // original weights, by input like memory_
  std::vector<DeviceMemory> memory_;
  std::vector<DeviceMemory> packed_;   // by stage: weights laid out for the stage's kernel
  std::vector<StageWeights> stages_;
};

}  // namespace fops
