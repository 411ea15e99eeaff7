// For any_shape.cu: the kernel's instances for few filters, whose tiles have the filters at several taps.
#include "conv/hopper/variants/any_shape/launch.cuh"

namespace fops::hopper {

fops_status launch_taps(const Call& call, const Choice& choice) {
  switch (choice.taps) {
    case 2: return launch_form<2, 1>(call, choice);
    case 4: return launch_form<4, 1>(call, choice);
    default: return launch_form<8, 1>(call, choice);
  }
}

}  // namespace fops::hopper
