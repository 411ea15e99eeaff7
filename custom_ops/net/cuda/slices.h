// Passes whose data and output are in host memory: small batches at once, larger ones in overlapping slices.
//
//   at once     one slice, whose first step reads pinned memory over the bus; replayed as a graph
//   in slices   a slice's data is cut into parts, and the first step runs on each as it arrives, timed by the device's
//               clock (not by events like the other steps: see kernels/stamp.cu); the next slice's upload and the
//               last one's download run beside that
//
// Two kinds of batches run at once, in one slice. The first kind is batches of at most kGraphItems items; a batch in
// ordinary memory, or a small one, is first copied to the library's pinned memory. The second kind is uint8 images in
// the caller's pinned memory, as many as a slice holds, if the first step is conv_pixels, which reads each image once
// (float32 images may be read three times, for their scales).
#pragma once

#include <vector>

#include "gpu/memory.h"
#include "net/cuda/graph_cache.h"
#include "net/cuda/steps.h"

namespace fops {

// A pass's data and output, in host memory. `out` receives each item's values (float) or, with `classes`, the index of
// its largest value (int32_t).
struct HostBatch {
  int64_t n;
  const void* data;
  fops_dtype type;
  void* out;
  bool classes;
};

// Where a pass adds its seconds, per stage and for transfers. Each pointer may be null.
struct PassTimes {
  std::vector<double>* stages;
  double *upload, *download;
};

class Slices {
 public:
  Slices(const Steps& steps, const Stream& compute) : steps_(steps), compute_(compute) {}

  // `marks`: maximum number of events per pass, the number of its steps plus one.
  fops_status open(size_t marks);
  // The number of bytes per item on the device in addition to the steps' buffers.
  int64_t item_bytes(fops_dtype type) const { return kSlots * (steps_.in_bytes(type) + steps_.out_bytes() + 4); }

  // Runs the whole batch, of which `buffers` hold `slice` items at a time. Returns when the batch is complete.
  fops_status run(const Buffers& buffers, int64_t slice, const HostBatch& batch, const PassTimes& times);
  // Called after a failure: waits for work in flight on the caller's memory. Keeps the failure's message.
  void abandon() noexcept;
  // Must be called before memory is freed that the graph of the last small batch uses.
  void forget_graph() noexcept { graph_.clear(); }

 private:
  static constexpr int kSlots = 3;  // slices in flight: one uploading, one computing, one downloading
  static constexpr int kParts = 4;  // maximum parts of a slice's upload

  // One slice in flight.
  struct Slot {
    DeviceMemory in, out, classes, spans;           // spans: one Span per part, for the first step
    PinnedMemory host_in, host_out, host_spans;
    Event upload_start, uploaded[kParts], computed, download_start, downloaded, timed;
    std::vector<Event> marks;                       // between the steps
    int64_t first = 0, n = 0;                       // items; n = 0 if nothing is in flight
    int parts = 0;

    fops_status release() noexcept;
  };
  // A batch that runs in slices, and which of its data and output are pinned, so that copies run asynchronously.
  struct Sliced {
    const Buffers& buffers;
    const HostBatch& batch;
    const PassTimes& times;
    bool in_pinned, out_pinned;
  };

  int64_t answer_bytes(const HostBatch& batch) const { return batch.classes ? 4 : steps_.out_bytes(); }
  // Whether the first step reads each byte of an image once.
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
  GraphCache graph_;  // for small batches, which use the first slot
};

}  // namespace fops
