// Passes whose data and output are in host memory: small batches at once, larger ones in overlapping slices.
//
//   at once     one slice; the first step reads pinned memory over the bus, if it reads each byte once; a repeated call
//               is replayed as a graph
//   in slices   a slice's data is uploaded in parts, and the first step runs on each part as it arrives; the upload of
//               the next slice and the download of the previous one overlap with a slice's computation. The first step
//               is timed by the device's clock (kernels/stamp.cu), the other steps by events.
//
// Two kinds of batches run at once, provided that they fit into one slice. The first kind is batches of at most
// kGraphItems items; their data is first copied to the library's pinned memory if it is in ordinary memory or small.
// The second kind is uint8 images in the caller's pinned memory, if the first step reads each image once: conv_pixels,
// or conv_pool with one channel. (Float32 images may be read several times, to find their scales.)
#pragma once

#include <vector>

#include "gpu/memory.h"
#include "net/cuda/graph_cache.h"
#include "net/cuda/steps.h"

namespace fops {

// A pass's data and output, in host memory. `out` receives each item's values (float) or, if `classes` is set, the
// index of its largest value (int32_t).
struct HostBatch {
  int64_t n;
  const void* data;
  fops_dtype type;
  void* out;
  bool classes;
};

// A pass adds its times to these, in seconds. Each pointer may be null. `stages` has one element per stage.
struct PassTimes {
  std::vector<double>* stages;
  double *upload, *download;
};

class Slices {
 public:
  Slices(const Steps& steps, const Stream& compute) : steps_(steps), compute_(compute) {}

  // Creates the streams and events. `marks`: maximum number of events between steps per pass (number of steps plus
  // one).
  fops_status open(size_t marks);
  int64_t item_bytes(fops_dtype type) const { return kSlots * (steps_.in_bytes(type) + steps_.out_bytes() + 4); }

  // Runs the whole batch in slices of up to `slice` items, the capacity of `buffers`. Returns when the batch is
  // complete.
  fops_status run(const Buffers& buffers, int64_t slice, const HostBatch& batch, const PassTimes& times);
  // Called after a failure: waits for the work in flight that uses the caller's memory. Leaves the failure's message.
  void abandon() noexcept;
  // Discards the graph of the last batch that ran at once. Must be called before memory that the graph uses is freed.
  void forget_graph() noexcept { graph_.clear(); }

 private:
  static constexpr int kSlots = 3;  // slices in flight: one uploading, one computing, one downloading
  static constexpr int kParts = 4;  // maximum parts of a slice's upload

  struct Slot {
    DeviceMemory in, out, classes, spans;  // spans: for each part, the Span of the first step
    PinnedMemory host_in, host_out, host_spans;
    Event upload_start, uploaded[kParts], computed, download_start, downloaded, timed;
    std::vector<Event> marks;  // recorded between the steps
    int64_t first = 0,         // number of the slice's first item
        n = 0;                 // number of items; 0 if nothing is in flight
    int parts = 0;             // number of parts of the upload

    fops_status release() noexcept;
  };
  // A batch with its buffers and times, and whether its data and its output are in pinned memory, which the device can
  // copy asynchronously.
  struct Sliced {
    const Buffers& buffers;
    const HostBatch& batch;
    const PassTimes& times;
    bool in_pinned, out_pinned;
  };

  int64_t answer_bytes(const HostBatch& batch) const { return batch.classes ? 4 : steps_.out_bytes(); }
  // Whether the first step's kernel may read images over the bus: it reads each byte of a uint8 image once.
  bool reads_over_bus(const Buffers& buffers) const {
    const Step& first = buffers.steps()[0];
    return first.kind == Step::Kind::conv_pixels || (first.kind == Step::Kind::conv_pool && first.in.C == 1);
  }
  fops_status reserve(Slot* slot, int64_t n, const Sliced& all);
  fops_status run_at_once(const Sliced& all);
  fops_status run_slices(const Sliced& all, int64_t slice);
  fops_status queue(const Sliced& all, Slot* slot);
  fops_status deliver(const Sliced& all, Slot* slot);

  const Steps& steps_;
  const Stream& compute_;
  Stream up_, down_;
  Slot slots_[kSlots];
  GraphCache graph_;  // for batches that run at once, which use the first slot
};

}  // namespace fops
