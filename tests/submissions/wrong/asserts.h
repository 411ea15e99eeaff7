// From the MXNet years: the assertion of the course's template is still there.
#include <mxnet/base.h>

namespace mxnet {
namespace op {
template <typename cpu, typename DType>
void forward(mshadow::Tensor<cpu, 4, DType>& y, const mshadow::Tensor<cpu, 4, DType>& x,
             const mshadow::Tensor<cpu, 4, DType>& k) {
  CHECK_EQ(0, 1) << "Missing an implementation!";
}
}  // namespace op
}  // namespace mxnet
