// Reads the device's clock in a stream. Times a batch's first step, which runs beside uploads.
//
//   event    kernel ----> time written over the bus, after the copies in flight there
//   stamp    kernel ----> time stored on the device
//
// Costs: a kernel of one thread. The clock ticks every 32 ns on an H200. Even one tick per microsecond would be small
// compared with the timed part of an upload, a megabyte or more.
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
