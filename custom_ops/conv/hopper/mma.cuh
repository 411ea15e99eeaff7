// Issues the wgmma instructions of several steps, unrolled: in a loop over steps the address arithmetic took as long as
// the tensor cores.
#pragma once

#include "gpu/isa/wgmma.cuh"

#include <type_traits>
#include <utility>

namespace fops::hopper {

// The possible numbers of steps in a group. The numbers that occur with 5x5, 7x7, 3x3 and 1x1 filters come first.
using UpToFour = std::integer_sequence<int, 4, 3, 1, 2>;
using UpToEight = std::integer_sequence<int, 7, 4, 5, 1, 6, 3, 8, 2>;

// Calls `body` with `steps` as a compile-time constant.
template <int kFirst, int... kOthers, typename Body>
__device__ __forceinline__ void with_steps(std::integer_sequence<int, kFirst, kOthers...>, int steps,
                                           const Body& body) {
  if constexpr (sizeof...(kOthers) > 0)
    if (steps != kFirst) return with_steps(std::integer_sequence<int, kOthers...>(), steps, body);
  body(std::integral_constant<int, kFirst>());
}

// Issues the products of kSteps steps: operand A is the weights, kStepBytes per step; operand B of step i is the pixels
// at offset places[i]. `weights` and `pixels` are the lower 32 bits of descriptors. `keep`: whether to add to `sum`
// (otherwise it is overwritten). `eight`: as in wgmma_ss.
template <int kSteps, int kStepBytes, int kRegisters>
__device__ __forceinline__ void multiply_steps(float (&sum)[kRegisters], uint32_t weights, uint32_t pixels,
                                               const uint32_t* places, uint32_t eight, int keep) {
#pragma unroll
  for (int i = 0; i < kSteps; ++i)
    wgmma_ss<2 * kRegisters>(sum, weights + i * (kStepBytes / 16), pixels + places[i], i > 0 || keep, eight);
}

}  // namespace fops::hopper
