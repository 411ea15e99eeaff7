// Kernels that write much more than they read: reading in phases.
//
// DRAM takes time to change from writing to reading and back, so continuous small reads keep interrupting the writes.
// Instead all blocks prefetch some megabytes into L2 at the same moment, those of the phase after next, and read from
// there:
//
//   tasks taken     |  phase 0   |  phase 1   |  phase 2   | ...
//   fetched into L2 | 0 1        | 2          | 3          |          DRAM reads for a moment, then writes alone
#pragma once

#include "gpu/isa/bulk_copy.cuh"
#include "gpu/launch.h"

namespace fops {

// Smaller phases read too often; larger ones are evicted from L2 before use (docs/notebook.md).
constexpr long long kPhaseBytes = 4 << 20;

struct Phases {
  unsigned count = 0;  // 0: nothing is fetched
  unsigned tasks = 0, share = 0;  // tasks per phase; bytes of a phase that one block fetches
  long long phase = 0, bytes = 0;  // bytes per phase, and of all images
};

// Phases for images of the given number of bytes and tasks each. `blocks` blocks fetch them; the rules of TMA apply
// (multiples of 16 bytes, aligned).
inline Phases phases_for(long long images, long long image_bytes, long long image_tasks, unsigned blocks) {
  Phases p;
  const long long each = std::max(1LL, kPhaseBytes / image_bytes);
  if (images < 3 * each || each * image_bytes % 16 != 0 || image_bytes * images % 16 != 0) return p;
  p.tasks = static_cast<unsigned>(each * image_tasks);
  p.phase = each * image_bytes, p.bytes = images * image_bytes;
  p.count = static_cast<unsigned>(ceil_div(images, each));
  p.share = static_cast<unsigned>(ceil_div(ceil_div(p.phase, blocks), 128) * 128);
  return p;
}

// One thread per block calls this to fetch its block's share of each phase. `counter` is the number of tasks taken
// beyond the first `given`. The thread reads the counter often, so that all blocks start a phase at the same moment.
class PhaseReader {
 public:
  __device__ PhaseReader(const Phases& phases, const void* x, const unsigned* counter, unsigned given, unsigned block)
      : phases(phases), from(static_cast<const char*>(x)), counter(counter), given(given), block(block) {
    if (counter && phases.count > 0) fetch(), fetch();
    else index = phases.count;
  }
  __device__ void look() {
    if (index < phases.count) pass(*reinterpret_cast<const volatile unsigned*>(counter) + given);
  }
  // Fetches for a caller that knows how many tasks are taken.
  __device__ void pass(unsigned taken) {
    if (index < phases.count && taken >= (index - 1) * phases.tasks) fetch();
  }

 private:
  __device__ void fetch() {
    const long long begin = index++ * phases.phase, end = min(begin + phases.phase, phases.bytes);
    const long long first = begin + static_cast<long long>(block) * phases.share;
    if (first < end) bulk_prefetch_l2_kept(from + first, static_cast<int>(min(end - first, 1LL * phases.share)));
  }
  const Phases& phases;
  const char* from;
  const unsigned* counter;
  unsigned given, block, index = 0;
};

}  // namespace fops
