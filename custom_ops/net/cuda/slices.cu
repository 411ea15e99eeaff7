#include "net/cuda/slices.h"

#include <algorithm>
#include <cstring>

#include "gpu/launch.h"
#include "gpu/transfers.h"

namespace fops {
namespace {

// Minimum bytes of a part, except if a slice is one part: their transfer takes about as long as a few launches.
constexpr int64_t kLeastPart = 1 << 20;
// Minimum bytes for which is_pinned is called. Fewer bytes are copied to the library's pinned memory, which is faster
// than is_pinned, and lets the graph be used again for data at another address.
constexpr int64_t kLeastPinned = 1 << 16;

struct Span {
  uint64_t begin, end;
};

}  // namespace

fops_status Slices::Slot::release() noexcept {
  for (DeviceMemory* memory : {&in, &out, &classes}) FOPS_TRY(memory->release());
  FOPS_TRY(host_in.release());
  return host_out.release();
}

fops_status Slices::open(size_t marks) {
  FOPS_TRY(up_.create());
  FOPS_TRY(down_.create());
  for (Slot& slot : slots_) {
    for (Event* event : {&slot.upload_start, &slot.computed, &slot.download_start, &slot.downloaded, &slot.timed})
      FOPS_TRY(event->create(true));
    for (Event& event : slot.uploaded) FOPS_TRY(event.create(true));
    slot.marks.resize(marks);
    for (Event& mark : slot.marks) FOPS_TRY(mark.create(true));
  }
  return FOPS_OK;
}

fops_status Slices::run(const Buffers& buffers, int64_t slice, const HostBatch& batch, const PassTimes& times) {
  const int64_t in = batch.n * steps_.in_bytes(batch.type), out = batch.n * answer_bytes(batch);
  const bool in_pinned = in >= kLeastPinned && is_pinned(batch.data, in);
  const Sliced all{buffers, batch, times, in_pinned, out >= kLeastPinned && is_pinned(batch.out, out)};
  const bool at_once = batch.n <= kGraphItems || (in_pinned && batch.type == FOPS_UINT8 && reads_over_bus(buffers));
  return at_once && batch.n <= slice ? run_at_once(all) : run_slices(all, slice);
}

void Slices::abandon() noexcept {
  for (const Stream* stream : {static_cast<const Stream*>(&up_), &compute_, static_cast<const Stream*>(&down_)})
    if (cudaStreamSynchronize(*stream) != cudaSuccess) cudaGetLastError();
  for (Slot& slot : slots_) slot.n = 0;
}

fops_status Slices::reserve(Slot* slot, int64_t n, const Sliced& all) {
  const size_t in = static_cast<size_t>(n * steps_.in_bytes(all.batch.type));
  const size_t out = static_cast<size_t>(n * steps_.out_bytes());
  if (in > slot->in.bytes() || out > slot->out.bytes()) graph_.clear();  // the graph may use this memory
  FOPS_TRY(slot->in.reserve(in));
  FOPS_TRY(slot->out.reserve(out));
  if (all.batch.classes) FOPS_TRY(slot->classes.reserve(static_cast<size_t>(4 * n)));
  FOPS_TRY(slot->spans.reserve(kParts * sizeof(Span)));
  FOPS_TRY(slot->host_spans.reserve(kParts * sizeof(Span)));
  if (!all.in_pinned) FOPS_TRY(slot->host_in.reserve(in));
  if (!all.out_pinned) FOPS_TRY(slot->host_out.reserve(out));
  return FOPS_OK;
}

fops_status Slices::run_at_once(const Sliced& all) {
  const HostBatch& batch = all.batch;
  const int64_t n = batch.n, in_bytes = n * steps_.in_bytes(batch.type), out_bytes = n * answer_bytes(batch);
  const std::vector<Step>& steps = all.buffers.steps();
  Slot& slot = slots_[0];
  FOPS_TRY(reserve(&slot, n, all));
  const void* const staged = all.in_pinned ? batch.data : slot.host_in.as();
  void* const result = all.out_pinned ? batch.out : slot.host_out.as();
  if (!all.in_pinned) memcpy(slot.host_in.as(), batch.data, static_cast<size_t>(in_bytes));

  // Kernels that read each byte once read pinned memory over the bus; for other kernels the data is copied to the
  // device first. Scores are written over the bus only for few items and only by the kernels few_units and softmax.
  const Step::Kind last = steps.back().kind;
  const bool copy_in = !reads_over_bus(all.buffers), few = n <= kGraphItems;
  const bool copy_out = !batch.classes && !(few && (last == Step::Kind::few_units || last == Step::Kind::softmax));
  const auto queue = [&]() -> fops_status {
    unsigned flags = 0;
    FOPS_TRY(record_flags(compute_, &flags));
    if (copy_in) {
      FOPS_CUDA(cudaEventRecordWithFlags(slot.upload_start, compute_, flags));
      FOPS_CUDA(cudaMemcpyAsync(slot.in.as(), staged, in_bytes, cudaMemcpyHostToDevice, compute_));
    }
    float* const to = copy_out || batch.classes ? slot.out.as<float>() : static_cast<float*>(result);
    // Marks are recorded only if times are requested: they keep a kernel from starting before the previous one ends.
    FOPS_TRY(steps_.run(all.buffers, 0, n, steps_.input(copy_in ? slot.in.as() : staged, batch.type, 0), to,
                        all.times.stages != nullptr ? &slot.marks : nullptr, compute_));
    if (batch.classes) FOPS_TRY(run_largest(n, steps_.out_bytes() / 4, to, static_cast<int32_t*>(result), compute_));
    if (copy_out) {
      FOPS_CUDA(cudaMemcpyAsync(result, to, out_bytes, cudaMemcpyDeviceToHost, compute_));
      FOPS_CUDA(cudaEventRecordWithFlags(slot.downloaded, compute_, flags));
    }
    return FOPS_OK;
  };
  if (graph_.is_for(n, staged, batch.type, result, batch.classes)) {
    FOPS_TRY(graph_.replay(compute_, compute_, queue));
  } else {
    graph_.remember(n, staged, batch.type, result, batch.classes);
    FOPS_TRY(queue());
  }
  FOPS_CUDA(cudaStreamSynchronize(compute_));
  if (!all.out_pinned) memcpy(batch.out, result, static_cast<size_t>(out_bytes));

  if (all.times.stages == nullptr) return FOPS_OK;
  for (size_t i = 0; i < steps.size(); ++i)
    FOPS_TRY(add_time(slot.marks[i], slot.marks[i + 1], &(*all.times.stages)[steps[i].stage]));
  if (copy_in) FOPS_TRY(add_time(slot.upload_start, slot.marks[0], all.times.upload));
  if (copy_out) FOPS_TRY(add_time(slot.marks[steps.size()], slot.downloaded, all.times.download));
  return FOPS_OK;
}

fops_status Slices::run_slices(const Sliced& all, int64_t slice) {
  const int64_t n = all.batch.n;
  slice = ceil_div(n, ceil_div(n, slice));  // slices of equal size
  const int slots = static_cast<int>(std::min<int64_t>(kSlots, ceil_div(n, slice)));
  for (int i = 0; i < slots;) {
    const fops_status status = reserve(&slots_[i], slice, all);
    if (status == FOPS_OK) {
      ++i;
    } else if (status != FOPS_OUT_OF_MEMORY || slice == 1) {
      return status;
    } else {
      slice = (slice + 1) / 2;
      graph_.clear();
      for (Slot& slot : slots_) FOPS_TRY(slot.release());
      i = 0;
    }
  }
  int turn = 0;
  for (int64_t first = 0; first < n; first += slice, turn = (turn + 1) % slots) {
    Slot& slot = slots_[turn];
    FOPS_TRY(deliver(all, &slot));  // waits for the previous slice in this slot
    slot.first = first;
    slot.n = std::min(slice, n - first);
    FOPS_TRY(queue(all, &slot));
  }
  for (int i = 0; i < slots; ++i, turn = (turn + 1) % slots) FOPS_TRY(deliver(all, &slots_[turn]));
  return FOPS_OK;
}

fops_status Slices::queue(const Sliced& all, Slot* slot) {
  const fops_dtype type = all.batch.type;
  const int64_t an_item = steps_.in_bytes(type), an_output = answer_bytes(all.batch);
  const int64_t parts = std::max<int64_t>(1, std::min<int64_t>(kParts, slot->n * an_item / kLeastPart));
  // Items per part: a multiple of 16, so that each part has the alignment of the first.
  const int64_t part = ceil_div(ceil_div(slot->n, parts), 16) * 16;
  float* const result = slot->out.as<float>();
  slot->parts = 0;
  FOPS_CUDA(cudaEventRecord(slot->upload_start, up_));
  for (int64_t at = 0; at < slot->n; at += part) {
    const int i = slot->parts++;
    const int64_t count = std::min(part, slot->n - at);
    const char* from = static_cast<const char*>(all.batch.data) + (slot->first + at) * an_item;
    char* const to = slot->in.as<char>() + at * an_item;
    if (!all.in_pinned) {
      char* const staged = slot->host_in.as<char>() + at * an_item;
      copy_host(staged, from, count * an_item);
      from = staged;
    }
    FOPS_CUDA(cudaMemcpyAsync(to, from, count * an_item, cudaMemcpyHostToDevice, up_));
    FOPS_CUDA(cudaEventRecord(slot->uploaded[i], up_));
    FOPS_CUDA(cudaStreamWaitEvent(compute_, slot->uploaded[i], 0));
    Span* const span = slot->spans.as<Span>() + i;
    FOPS_TRY(run_stamp(&span->begin, compute_));
    FOPS_TRY(steps_.run_step(all.buffers, all.buffers.steps()[0], count, steps_.input(slot->in.as(), type, at),
                             all.buffers.output(0, result, at), compute_));
    FOPS_TRY(run_stamp(&span->end, compute_));
  }
  FOPS_TRY(steps_.run(all.buffers, 1, slot->n, steps_.input(slot->in.as(), type, 0), result, &slot->marks, compute_));
  const void* answer = result;
  if (all.batch.classes) {
    FOPS_TRY(run_largest(slot->n, steps_.out_bytes() / 4, result, slot->classes.as<int32_t>(), compute_));
    answer = slot->classes.as();
  }
  FOPS_CUDA(cudaEventRecord(slot->computed, compute_));

  FOPS_CUDA(cudaStreamWaitEvent(down_, slot->computed, 0));
  FOPS_CUDA(cudaEventRecord(slot->download_start, down_));
  char* const to = all.out_pinned ? static_cast<char*>(all.batch.out) + slot->first * an_output
                                  : slot->host_out.as<char>();
  FOPS_CUDA(cudaMemcpyAsync(to, answer, slot->n * an_output, cudaMemcpyDeviceToHost, down_));
  FOPS_CUDA(cudaEventRecord(slot->downloaded, down_));
  FOPS_CUDA(cudaMemcpyAsync(slot->host_spans.as(), slot->spans.as(), slot->parts * sizeof(Span), cudaMemcpyDeviceToHost,
                            down_));
  FOPS_CUDA(cudaEventRecord(slot->timed, down_));
  return FOPS_OK;
}

// Waits for the slice in this slot, if there is one, copies its output to the caller, and adds its times.
fops_status Slices::deliver(const Sliced& all, Slot* slot) {
  if (slot->n == 0) return FOPS_OK;
  const int64_t an_output = answer_bytes(all.batch);
  FOPS_CUDA(cudaEventSynchronize(slot->downloaded));
  if (!all.out_pinned)
    copy_host(static_cast<char*>(all.batch.out) + slot->first * an_output, slot->host_out.as(), slot->n * an_output);
  FOPS_CUDA(cudaEventSynchronize(slot->timed));
  slot->n = 0;
  if (all.times.stages != nullptr) {
    std::vector<double>& seconds = *all.times.stages;
    const std::vector<Step>& steps = all.buffers.steps();
    const Span* const spans = slot->host_spans.as<Span>();
    for (int i = 0; i < slot->parts; ++i)
      seconds[steps[0].stage] += static_cast<double>(spans[i].end - spans[i].begin) * 1e-9;
    for (size_t i = 1; i < steps.size(); ++i)
      FOPS_TRY(add_time(slot->marks[i], slot->marks[i + 1], &seconds[steps[i].stage]));
  }
  FOPS_TRY(add_time(slot->upload_start, slot->uploaded[slot->parts - 1], all.times.upload));
  return add_time(slot->download_start, slot->downloaded, all.times.download);
}

}  // namespace fops
