// Any shape on Hopper: the kernels of few filters, whose rows hold several taps.
#include "conv/cuda/12_tensor_core/any_shape/launch.cuh"

namespace fops {
namespace any_shape {

fops_status launch_taps(const Call& call, const Choice& choice) {
  switch (choice.taps) {
    case 2: return launch_form<2, 1>(call, choice);
    case 4: return launch_form<4, 1>(call, choice);
    default: return launch_form<8, 1>(call, choice);
  }
}

}  // namespace any_shape
}  // namespace fops
