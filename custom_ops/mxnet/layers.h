// Translates MXNet's nodes into the planner's layers. It does not need MXNet's headers, because the C API takes such nodes
// in builds without MXNet too.
#pragma once

#include <string>

#include "mxnet/attributes.h"
#include "net/layers.h"

namespace fops {

// Returns the layer for a node with this operator, name and attributes. A node that cannot be fused becomes a layer of kind
// `other` with the reason in `refusal`. The operator "null" is a variable, an input of the graph. The caller sets the
// members `inputs` and `number`.
Layer layer_of(const std::string& op, const std::string& name, const Attributes& attributes);

}  // namespace fops
