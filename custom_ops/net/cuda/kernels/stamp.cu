// Stores the device's clock when the stream reaches this kernel. Times the first step of a batch in slices, which runs
// while data is uploaded.
//
//   event    kernel ----> time written over the bus, behind the copies in flight there
//   stamp    kernel ----> time stored on the device
//
// Costs: a kernel of one thread. The clock ticks every 32 ns on an H200.
// Gains: events around a short kernel may show more than twice its time. docs/notebook.md has the measurements.
#include <cstdint>

#include "net/cuda/kernels/stages.h"

namespace fops {
namespace {

// Stores the device's time in nanoseconds, which is the same on all SMs.
__global__ void stamp(uint64_t* to) { asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(*to)); }

}  // namespace

fops_status run_stamp(uint64_t* to, cudaStream_t stream) {
  stamp<<<1, 1, 0, stream>>>(to);
  return launched("time stamp");
}

}  // namespace fops
