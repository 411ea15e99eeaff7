// Reading in phases, for kernels that write much more than they read.
//
// DRAM takes time to change between reading and writing, so continuous small reads would keep interrupting the writes.
// Therefore the images are divided into phases of some megabytes. When the blocks begin a phase, they all prefetch the
// next phase's images into L2 at the same moment, and read them from there later:
//
//   phase in progress         |  phase 0   |  phase 1   |  phase 2   | ...
//   prefetched at its start   | 0 1        | 2          | 3          |      DRAM reads for a moment, then only writes
#pragma once

#include "gpu/isa/bulk_copy.cuh"
#include "gpu/launch.h"

namespace fops {

// Bytes of images per phase. With smaller phases DRAM changes to reading too often; larger phases are evicted from L2
// before they are used.
constexpr long long kPhaseBytes = 4 << 20;

struct Phases {
  unsigned count = 0;              // number of phases; 0: nothing is prefetched
  unsigned tasks = 0, share = 0;   // tasks per phase; bytes of a phase that one block prefetches
  long long phase = 0, bytes = 0;  // bytes per phase; bytes of all images
};

// Returns the phases for `images` images of image_bytes bytes and image_tasks tasks each, prefetched by `blocks`
// blocks. There are none if there are too few images, or if sizes are not multiples of 16 bytes, as TMA requires. The
// images must begin on a 16-byte boundary.
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

// Prefetches a block's share of each phase; used by one thread per block. *counter is the number of tasks that the
// blocks have taken in addition to the first `given`. The thread reads the counter often, so that all blocks prefetch
// at nearly the same moment. If `counter` is null, nothing is prefetched.
class PhaseReader {
 public:
  __device__ PhaseReader(const Phases& phases, const void* x, const unsigned* counter, unsigned given, unsigned block)
      : phases(phases), from(static_cast<const char*>(x)), counter(counter), given(given), block(block) {
    if (counter && phases.count > 0)
      fetch(), fetch();
    else
      index = phases.count;
  }
  // Reads the counter, and prefetches the next phase if its time has come.
  __device__ void look() {
    if (index < phases.count) pass(*reinterpret_cast<const volatile unsigned*>(counter) + given);
  }
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
