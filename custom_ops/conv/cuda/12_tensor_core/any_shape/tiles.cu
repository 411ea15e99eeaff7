// Any shape on Hopper: the kernels of more than 32 filters, their low halves in tiles of their own.
#include "conv/cuda/12_tensor_core/any_shape/launch.cuh"

namespace fops {
namespace any_shape {

fops_status launch_tiles(const Call& call, const Choice& choice) {
  return choice.tiles == 1 ? launch_form<0, 1>(call, choice) : launch_form<0, 2>(call, choice);
}

}  // namespace any_shape
}  // namespace fops
