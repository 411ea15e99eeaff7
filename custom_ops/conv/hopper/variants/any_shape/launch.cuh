// For any_shape.cu: launches the instance of the kernel that was compiled for a tiling.
#pragma once

#include "conv/hopper/variants/any_shape/kernel.cuh"
#include "conv/hopper/variants/any_shape/launch.h"

namespace fops::hopper {

template <typename Kernel>
fops_status launch_kernel(const Call& call, Kernel* kernel) {
  Plan plan = call.plan;
  const size_t shared = kOutgoingBytes + static_cast<size_t>(plan.stages) * plan.group_bytes +
                        static_cast<size_t>(plan.buffers * plan.buffer_bytes()) + plan.pieces * plan.row_bytes();
  unsigned grid = plan.tasks * plan.parts;  // with several parts, each cluster has one task
  FOPS_TRY(plan.parts == 1 ? resident_grid(kernel, kThreads, shared, plan.tasks, &grid) : allow_shared(kernel, shared));
  const bool one_image = call.c.B == 1 || (plan.by_image && !plan.strips.together);
  plan.early = one_image && grid == plan.tasks * plan.parts;
  return launch_early(kernel, grid, plan.parts, kThreads, shared, call.stream, dims(call.c), plan, call.steps,
                      call.c.x_type == FOPS_UINT8, call.x, call.k, call.y, call.packed);
}

template <int kTaps, int kTiles, typename Cut>
fops_status launch_cut(const Call& call) {
  if constexpr (!Cut::kEarly && !Cut::kStrips) {
    using Rows = hopper::Cut<Cut::kColumns, false, false, true>;
    if (call.plan.pieces && reinterpret_cast<uintptr_t>(call.x) % 16 == 0)
      return launch_kernel(call, tensor_core_any_shape<kTaps, kTiles, Rows>);
  }
  if constexpr (kTaps > 1)
    if (call.plan.steps <= call.plan.chain)
      return launch_kernel(call, tensor_core_any_shape<kTaps, kTiles, Cut, false>);
  return launch_kernel(call, tensor_core_any_shape<kTaps, kTiles, Cut>);
}

template <int kTaps, int kTiles>
fops_status launch_form(const Call& call, const Choice& choice) {
  if constexpr (kTaps <= 1)
    if (choice.strips > 0) {
      if constexpr (kTiles == 1)
        if (choice.columns == kFewColumns) return launch_cut<kTaps, 1, Cut<kFewColumns, true>>(call);
      return choice.columns == 96 ? launch_cut<kTaps, kTiles, Cut<96, true>>(call)
                                  : launch_cut<kTaps, kTiles, Cut<kMaxColumns, true>>(call);
    }
  if constexpr (kTiles == 1) {
    if (choice.parts > 1) return launch_kernel(call, tensor_core_any_shape<kTaps, 1, Cut<kFewColumns, false, true>>);
    if (choice.columns == kFewColumns) return launch_cut<kTaps, 1, Cut<kFewColumns>>(call);
  }
  switch (choice.columns) {
    case 72: return launch_cut<kTaps, kTiles, Cut<72>>(call);
    case 112: return launch_cut<kTaps, kTiles, Cut<112>>(call);
    default: return launch_cut<kTaps, kTiles, Cut<kMaxColumns>>(call);
  }
}

}  // namespace fops::hopper
