// Passes whose data and output lie in host memory: small batches at once, larger ones in slices that overlap.
//
//   at once     one slice, whose first step reads pinned memory over the bus. That is replayed as a graph.
//   in slices   a slice's data is cut into parts, and the first step runs on each as it arrives, timed by the device's
//               clock (kernels/stamp.cu says why not by events, as the other steps); the next slice's upload and the
//               last one's download run beside that
//
// Two kinds of batches go at once. Batches of at most kGraphItems: a small one, or one in ordinary memory, is copied to
// pinned memory of ours before. And uint8 images in the caller's pinned memory, as many as a slice holds, where the
// first step is conv_pixels, which reads each once; float32 images it may read three times, for their scales.
#pragma once

#include <vector>

#include "gpu/memory.h"
#include "net/cuda/graph_cache.h"
#include "net/cuda/steps.h"

namespace fops {

// What a pass reads and writes, in host memory. `out` receives each item's values, float, or with `classes` the index
// of its largest one, int32_t.
struct HostBatch {
  int64_t n;
  const void* data;
  fops_dtype type;
  void* out;
  bool classes;
};

// Where a pass adds up its seconds: by stage, and of the transfers. Each may be null.
struct PassTimes {
  std::vector<double>* stages;
  double *upload, *download;
};

class Slices {
 public:
  Slices(const Steps& steps, const Stream& compute) : steps_(steps), compute_(compute) {}

  // `marks`: events that a pass can need, one more than it has steps.
  fops_status open(size_t marks);
  // Bytes an item takes on the device beside the steps' own.
  int64_t item_bytes(fops_dtype type) const { return kSlots * (steps_.in_bytes(type) + steps_.out_bytes() + 4); }

  // The whole batch, of which `buffers` hold `slice` items at once. Synchronous.
  fops_status run(const Buffers& buffers, int64_t slice, const HostBatch& batch, const PassTimes& times);
  // Behind a failure: waits for what is under way with the caller's memory. The message stays that of the failure.
  void abandon() noexcept;
  // What the graph of the last small batch points to is about to go.
  void forget_graph() noexcept { graph_.clear(); }

 private:
  static constexpr int kSlots = 3;  // slices in flight: one up, one at work, one down
  static constexpr int kParts = 4;  // of a slice's upload, at most

  // One slice in flight.
  struct Slot {
    DeviceMemory in, out, classes, spans;           // a Span for the first step on each part
    PinnedMemory host_in, host_out, host_spans;
    Event upload_start, uploaded[kParts], computed, download_start, downloaded, timed;
    std::vector<Event> marks;                       // between the steps
    int64_t first = 0, n = 0;                       // items; n = 0 where nothing is in flight
    int parts = 0;

    fops_status release() noexcept;
  };
  // A batch in slices, and which of its ends the copy engines reach by themselves.
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
  GraphCache graph_;  // of small batches, which use the first slot
};

}  // namespace fops
