// The declarations of MXNet that kernel files of fa2017 to fa2019 use: mshadow's tensors, and the names cpu and gpu.
#ifndef MXNET_BASE_H_
#define MXNET_BASE_H_

#include <algorithm>
#include <vector>

#include "mshadow/tensor.h"

namespace mxnet {
typedef mshadow::cpu cpu;
typedef mshadow::gpu gpu;
typedef mshadow::index_t index_t;
typedef mshadow::default_real_t real_t;
}  // namespace mxnet

#endif
