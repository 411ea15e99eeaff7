// The device's clock, read in a stream.
//
// An event's time is written over the bus, behind the copies that are on their way there. Beside uploads, which is
// where the executor wants a batch's first step, a kernel of 46 us lay 48 to 110 us between its events, by what the
// host did with its memory. This store stays on the device. Around a kernel of 83.5 us on an H200: events 85.7 us, and
// 91.8 beside uploads; stamps 85.8 and 87.7.
//
// The clock ticks every 32 ns there; where it ticks once a microsecond, that is little of what is timed so, a part of
// an upload of a megabyte or more.
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
