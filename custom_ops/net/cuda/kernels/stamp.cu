// The device's clock, read in a stream: what times a batch's first step, which runs beside uploads.
//
//   event    kernel ----> time written over the bus, behind the copies that are on their way there
//   stamp    kernel ----> time stored on the device
//
// Costs: a kernel of one thread. The clock ticks every 32 ns on an H200; where it ticks once a microsecond, that is
// little of what is timed by it, a part of an upload of a megabyte or more.
// Gains: two events may show more than twice a short kernel's time. docs/notebook.md has the measurements.
#include "gpu/isa/clock.cuh"
#include "net/cuda/kernels/stages.h"

namespace fops {
namespace {

__global__ void stamp(uint64_t* to) { *to = device_nanoseconds(); }

}  // namespace

fops_status run_stamp(uint64_t* to, cudaStream_t stream) {
  stamp<<<1, 1, 0, stream>>>(to);
  return launched("time stamp");
}

}  // namespace fops
