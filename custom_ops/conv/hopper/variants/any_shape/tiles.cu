// For any_shape.cu: the kernel's instances for more than 32 filters, whose low parts are in separate tiles.
#include "conv/hopper/variants/any_shape/launch.cuh"

namespace fops::hopper {

fops_status launch_tiles(const Call& call, const Choice& choice) {
  return choice.tiles == 1 ? launch_form<0, 1>(call, choice) : launch_form<0, 2>(call, choice);
}

}  // namespace fops::hopper
