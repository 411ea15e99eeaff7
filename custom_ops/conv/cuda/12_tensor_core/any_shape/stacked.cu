// Any shape on Hopper: the kernels whose tiles hold high and low halves of 32 filters.
#include "conv/cuda/12_tensor_core/any_shape/launch.cuh"

namespace fops {
namespace any_shape {

fops_status launch_stacked(const Call& call, const Choice& choice) { return launch_form<1, 1>(call, choice); }

bool usable() { return has_code_here(tensor_core_any_shape<1, 1, Cut<kMostColumns>, false>, kThreads); }

}  // namespace any_shape
}  // namespace fops
