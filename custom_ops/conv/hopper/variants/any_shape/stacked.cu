// For any_shape.cu: the kernel's instances whose tiles have the high and low parts of 32 filters.
#include "conv/hopper/variants/any_shape/launch.cuh"

namespace fops::hopper {

fops_status launch_stacked(const Call& call, const Choice& choice) { return launch_form<1, 1>(call, choice); }

bool usable() { return has_code_here(tensor_core_any_shape<1, 1, Cut<kMaxColumns>>, kThreads); }

}  // namespace fops::hopper
