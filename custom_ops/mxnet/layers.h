// MXNet's nodes as the planner's layers. Plain C++: the C API takes such nodes too, in builds without MXNet.
#pragma once

#include <string>

#include "mxnet/attributes.h"
#include "net/layers.h"

namespace fops {

// The layer that a node is, by its operator and attributes alone; Layer::Kind::other, with the reason, for one that
// cannot be fused. The operator "null" is a variable, an input of the graph. The caller sets inputs and number.
Layer layer_of(const std::string& op, const std::string& name, const Attributes& attributes);

}  // namespace fops
