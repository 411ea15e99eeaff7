// The CUDA executor: a plan's stages on one device, activations never leaving it.
//
// Weights are uploaded and laid out when they change. Items pass through in slices, as many as memory allows: the large
// matrix product wants thousands of rows (fa2017's on an H200: 0.33 ms for 10,000 rows, 0.65 ms for four times 2,500).
// In forward(), where the data comes from the host, a slice's data is cut into parts, and the first step runs on each
// as it arrives, timed by the device's clock (kernels/stamp.cu says why not by events, as the other steps); the next
// slice's upload and the last one's download run beside that. Each step owns its output buffer, so nothing is allocated
// once a size has been seen, and the zeros behind the rows of halves, written once, stay.
//
// Small batches are bound by launches, not by work: calls with the same arguments are captured into a CUDA graph at the
// second one, and replayed from then on. From the host their data is not even copied: the kernels read and write pinned
// memory over the bus.
#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <string>

#include "base/thread_pool.h"
#include "conv/dispatch.h"
#include "gpu/device.h"
#include "gpu/launch.h"
#include "gpu/memory.h"
#include "net/cuda/route.h"
#include "net/executor.h"

namespace fops {
namespace {

constexpr int kSlots = 3;              // slices in flight in forward(): one up, one at work, one down
constexpr int64_t kMostItems = 16384;  // a slice, at most
constexpr int kParts = 4;              // of a slice's upload, at most
constexpr int64_t kLeastPart = 1 << 20;  // bytes: 0.02 ms on the bus, some launches' worth
constexpr int64_t kGraphItems = 1024;  // batches up to this run as a graph
constexpr double kMemoryShare = 0.8;   // of the free memory

// Items a slice may have at most; FASHION_OPS_SLICE lowers it, for tests and for sharing a small device.
int64_t most_items() {
  const char* text = std::getenv("FASHION_OPS_SLICE");
  const long long wanted = text != nullptr ? std::atoll(text) : 0;
  return wanted > 0 ? std::min<int64_t>(wanted, kMostItems) : kMostItems;
}

// A captured graph and what it was captured for.
struct Graph {
  cudaGraphExec_t exec = nullptr;
  int64_t n = -1;
  const void* data = nullptr;
  fops_dtype type = FOPS_FLOAT32;
  float* out = nullptr;
  bool is_for(int64_t count, const void* x, fops_dtype t, const float* y) const {
    return n == count && data == x && type == t && out == y;
  }
  void remember(int64_t count, const void* x, fops_dtype t, float* y) {
    clear();
    n = count, data = x, type = t, out = y;
  }
  void clear() noexcept {
    if (exec != nullptr) cudaGraphExecDestroy(exec);
    exec = nullptr;
    n = -1;
  }
  ~Graph() { clear(); }
};

// A plan's steps for data of one type, and the memory they write to.
struct Route {
  bool made = false;
  std::vector<Step> steps;
  std::vector<DeviceMemory> buffers;  // of each step but the last, which writes to the caller's
  DeviceMemory scratch, workspace;
  int64_t capacity = 0;  // items
  bool limited = false;  // memory held no more: larger batches go in slices of this

  // Items a slice of a batch of n has, once there is memory.
  int64_t slice(int64_t n) const {
    const int64_t wanted = std::min(n, most_items());
    return limited ? std::min(wanted, capacity) : wanted;
  }
  fops_status release() noexcept {
    capacity = 0;
    limited = false;
    for (DeviceMemory& buffer : buffers) FOPS_TRY(buffer.release());
    FOPS_TRY(scratch.release());
    return workspace.release();
  }
};

// The device's time when something began and ended, in nanoseconds.
struct Span {
  uint64_t begin, end;
};

// One slice in flight.
struct Slot {
  DeviceMemory in, out, spans;                    // a Span for the first step on each part
  PinnedMemory host_in, host_out, host_spans;
  Event upload_start, uploaded[kParts], computed, download_start, downloaded, timed;
  std::vector<Event> marks;                       // between the steps
  int64_t first = 0, n = 0;                       // items; n = 0 where nothing is in flight
  int parts = 0;

  fops_status release() noexcept {
    FOPS_TRY(in.release());
    FOPS_TRY(out.release());
    FOPS_TRY(host_in.release());
    return host_out.release();
  }
};

class CudaExecutor : public Executor {
 public:
  CudaExecutor(const Plan& plan, int device, int products) : plan_(plan), device_(device), products_(products) {}

  ~CudaExecutor() override {
    DeviceScope scope;
    if (scope.enter(device_) == FOPS_OK) cudaDeviceSynchronize();  // work that forward_device queued may still run
  }

  fops_status open() {
    DeviceScope scope;
    FOPS_TRY(scope.enter(device_));
    int major = 0;
    FOPS_CUDA(cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, device_));
    matrix_units_ = major >= 8;
    FOPS_TRY(compute_.create());
    FOPS_TRY(up_.create());
    FOPS_TRY(down_.create());
    FOPS_TRY(idle_.create(false));
    FOPS_CUDA(cudaEventRecord(idle_, compute_));
    for (Slot& slot : slots_) {
      for (Event* event : {&slot.upload_start, &slot.computed, &slot.download_start, &slot.downloaded, &slot.timed})
        FOPS_TRY(event->create(true));
      for (Event& event : slot.uploaded) FOPS_TRY(event.create(true));
      slot.marks.resize(2 * plan_.stages.size() + 1);  // a stage is two steps at most
      for (Event& mark : slot.marks) FOPS_TRY(mark.create(true));
    }
    weights_.resize(plan_.stages.size());
    held_.resize(plan_.inputs.size());
    memory_.resize(plan_.inputs.size());
    packed_.resize(plan_.stages.size());
    return FOPS_OK;
  }

  fops_status set_weights(const std::vector<Weight>& given) override;
  fops_status forward(int64_t n, const void* data, fops_dtype type, float* out, std::vector<double>* seconds,
                      double* upload, double* download) override;
  fops_status forward_device(int64_t n, const void* data, fops_dtype type, float* out, void* stream) override;

 private:
  struct Held {
    bool there = false;
    uint64_t version = 0;
  };

  int64_t in_bytes(fops_dtype type) const { return plan_.in().size() * (type == FOPS_UINT8 ? 1 : 4); }
  int64_t out_bytes() const { return plan_.out().size() * 4; }

  fops_status lay_out(size_t stage, const std::vector<Weight>& given);
  fops_status prepare(fops_dtype type, int64_t n, int64_t extra_bytes, int64_t* slice);
  fops_status reserve(Route* route, int64_t n);
  Tensor input(const void* data, fops_dtype type, int64_t first) const;
  Tensor output(const Route& route, size_t step, float* out, int64_t first) const;
  fops_status run(const Route& route, size_t from, int64_t n, Tensor x, float* out, std::vector<Event>* marks,
                  cudaStream_t stream);
  fops_status run_step(const Step& step, int64_t n, const Tensor& x, const Tensor& y, const Route& route,
                       cudaStream_t stream);
  template <typename F>
  fops_status capture(Graph* graph, F queue);
  fops_status run_small(int64_t n, const void* data, fops_dtype type, float* out, std::vector<double>* seconds,
                        double* upload, double* download);
  fops_status run_slices(int64_t n, int64_t slice, const void* data, fops_dtype type, float* out,
                         std::vector<double>* seconds, double* upload, double* download);
  fops_status queue_slice(const Route& route, Slot* slot, const char* data, fops_dtype type, float* out, bool in_pinned,
                          bool out_pinned);
  fops_status reserve_slot(Slot* slot, int64_t n, fops_dtype type, bool in_pinned, bool out_pinned);
  fops_status finish(const Route& route, Slot* slot, float* out, bool out_pinned, std::vector<double>* seconds,
                     double* upload, double* download);

  const Plan plan_;
  const int device_, products_;
  bool matrix_units_ = false;
  Stream compute_, up_, down_;
  Event idle_;                          // the end of the last pass, on whatever stream it ran
  cudaStream_t last_stream_ = nullptr;  // which that was
  Slot slots_[kSlots];
  std::vector<Held> held_;               // by input, as memory_: the weights as they came
  std::vector<DeviceMemory> memory_;
  std::vector<DeviceMemory> packed_;     // by stage: laid out for its kernel
  std::vector<StageWeights> weights_;    // by stage
  Route routes_[2];                      // by fops_dtype
  Graph device_graph_, host_graph_;
};

// ---- weights ----------------------------------------------------------------------------------------------------

// A weight that lies on a device (MXNet's own GPU context) comes to `host`: laying out reads it there.
fops_status fetch(Weight* weight, size_t values, std::vector<float>* host) {
  cudaPointerAttributes attributes;
  if (cudaPointerGetAttributes(&attributes, weight->values) != cudaSuccess) {
    cudaGetLastError();
    return FOPS_OK;  // host memory that CUDA does not know
  }
  if (attributes.type != cudaMemoryTypeDevice) return FOPS_OK;
  host->resize(values);
  FOPS_CUDA(cudaMemcpy(host->data(), weight->values, values * sizeof(float), cudaMemcpyDeviceToHost));
  weight->values = host->data();
  return FOPS_OK;
}

fops_status CudaExecutor::set_weights(const std::vector<Weight>& from) {
  std::vector<Weight> given = from;
  std::vector<std::vector<float>> fetched(given.size());
  std::vector<bool> changed(given.size(), false);
  bool any = false;
  for (const Stage& stage : plan_.stages)
    for (int input : {stage.weight, stage.bias}) {
      if (input < 0) continue;
      if (held_[input].there && held_[input].version == given[input].version) continue;
      changed[input] = any = true;
    }
  if (!any) return FOPS_OK;

  DeviceScope scope;
  FOPS_TRY(scope.enter(device_));
  FOPS_CUDA(cudaEventSynchronize(idle_));  // passes still at work read the old ones
  device_graph_.clear();
  host_graph_.clear();
  for (Route& route : routes_) route.made = false;
  for (size_t input = 0; input < given.size(); ++input) {
    if (!changed[input]) continue;
    held_[input].there = false;  // until all is laid out
    size_t values = 1;
    for (int64_t side : plan_.shapes[input]) values *= static_cast<size_t>(side);
    FOPS_TRY(fetch(&given[input], values, &fetched[input]));
    FOPS_TRY(memory_[input].reserve(values * sizeof(float)));
    FOPS_CUDA(cudaMemcpyAsync(memory_[input].as(), given[input].values, values * sizeof(float), cudaMemcpyHostToDevice,
                              compute_));
  }
  for (size_t i = 0; i < plan_.stages.size(); ++i) {
    const Stage& stage = plan_.stages[i];
    if ((stage.weight >= 0 && changed[stage.weight]) || (stage.bias >= 0 && changed[stage.bias]))
      FOPS_TRY(lay_out(i, given));
  }
  FOPS_CUDA(cudaStreamSynchronize(compute_));
  for (size_t input = 0; input < given.size(); ++input)
    if (changed[input]) held_[input] = {true, given[input].version};
  return FOPS_OK;
}

fops_status CudaExecutor::lay_out(size_t index, const std::vector<Weight>& given) {
  const Stage& stage = plan_.stages[index];
  StageWeights& w = weights_[index];
  w = StageWeights();
  w.w = memory_[stage.weight].as<float>();
  if (stage.bias >= 0) w.bias = memory_[stage.bias].as<float>();

  const int64_t units = stage.kind == Stage::Kind::convolution ? stage.out.C : stage.out.size();
  const int64_t a_unit = stage.kind == Stage::Kind::convolution ? stage.in.C * stage.K * stage.K : stage.in.size();
  if (!stage.tanh) {  // behind tanh the bound is 1, whatever they are
    const float* values = given[stage.weight].values;
    for (int64_t u = 0; u < units; ++u) {
      double sum = 0.0;
      for (int64_t k = 0; k < a_unit; ++k) sum += std::fabs(static_cast<double>(values[u * a_unit + k]));
      w.sum = sum <= w.sum ? w.sum : sum;  // also when it is NaN
    }
    if (stage.bias >= 0)
      for (int64_t u = 0; u < units; ++u) {
        const double size = std::fabs(static_cast<double>(given[stage.bias].values[u]));
        w.bias_largest = size <= w.bias_largest ? w.bias_largest : size;
      }
  }

  if (stage.kind == Stage::Kind::convolution && takes_conv_pixels(stage)) {
    w.packed_pixels = pack_conv_pixels(stage, given[stage.weight].values, &w.pixels);
    if (w.packed_pixels) {
      const size_t bytes = w.pixels.packed.size() * sizeof(uint32_t);
      FOPS_TRY(packed_[index].reserve(bytes));
      FOPS_CUDA(cudaMemcpyAsync(packed_[index].as(), w.pixels.packed.data(), bytes, cudaMemcpyHostToDevice, compute_));
      w.pixels.device = packed_[index].as<uint32_t>();
    }
  } else if (stage.kind == Stage::Kind::dense && units > kFewUnits && matrix_units_) {
    FOPS_TRY(packed_[index].reserve(dense_weight_bytes(units, a_unit)));
    FOPS_TRY(pack_dense(units, a_unit, w.w, w.bias, packed_[index].as(), &w.dense, compute_));
    w.packed_dense = true;
  }
  return FOPS_OK;
}

// ---- memory -----------------------------------------------------------------------------------------------------

// Makes the route for this type if need be, and sees to memory for slices of up to n items; *slice receives how many
// there is memory for. `extra_bytes` an item are left free for the caller.
fops_status CudaExecutor::prepare(fops_dtype type, int64_t n, int64_t extra_bytes, int64_t* slice) {
  Route& route = routes_[type];
  if (!route.made) {
    std::vector<Step> steps = make_route(plan_, weights_, type, matrix_units_);
    bool same = steps.size() == route.steps.size();
    for (size_t i = 0; same && i < steps.size(); ++i)
      same = steps[i].kind == route.steps[i].kind && steps[i].out_bytes() == route.steps[i].out_bytes() &&
             steps[i].scratch == route.steps[i].scratch;
    if (!same) FOPS_TRY(route.release());  // a new weight's bound may have changed the forms
    route.steps = std::move(steps);
    route.made = true;
  }
  *slice = route.slice(n);
  if (*slice <= route.capacity) return FOPS_OK;
  const int64_t wanted = *slice;

  device_graph_.clear();
  host_graph_.clear();
  FOPS_TRY(route.release());
  size_t free = 0, total = 0;
  FOPS_CUDA(cudaMemGetInfo(&free, &total));
  int64_t an_item = extra_bytes, scratch = 0;
  for (const Step& step : route.steps) {
    an_item += step.out_bytes();
    scratch = std::max(scratch, 4 * step.scratch);
  }
  const double fit = kMemoryShare * static_cast<double>(free) / static_cast<double>(an_item + scratch);
  *slice = std::max<int64_t>(1, std::min(*slice, static_cast<int64_t>(fit)));
  for (;; *slice = (*slice + 1) / 2) {  // another process may have been quicker
    const fops_status status = reserve(&route, *slice);
    if (status == FOPS_OK) {
      route.limited = *slice < wanted;
      return FOPS_OK;
    }
    FOPS_TRY(route.release());
    if (status != FOPS_OUT_OF_MEMORY || *slice == 1) return status;
  }
}

fops_status CudaExecutor::reserve(Route* route, int64_t n) {
  size_t scratch = 0, workspace = 0;
  route->buffers.resize(route->steps.size() - 1);
  for (size_t i = 0; i < route->steps.size(); ++i) {
    const Step& step = route->steps[i];
    scratch = std::max(scratch, static_cast<size_t>(4 * step.scratch * n));
    if (step.kind == Step::Kind::dense)
      workspace = std::max(workspace, dense_workspace_bytes(weights_[step.stage].dense, n));
    if (i + 1 == route->steps.size()) continue;
    const size_t bytes = static_cast<size_t>(n * step.out_bytes());
    FOPS_TRY(route->buffers[i].reserve(bytes));
    // Rows of halves need the zeros; the others get them so that compute-sanitizer, whose initcheck does not see what
    // the bulk copy engine writes, takes nothing that a kernel reads for unwritten.
    FOPS_CUDA(cudaMemsetAsync(route->buffers[i].as(), 0, bytes, compute_));
  }
  if (scratch > 0) {
    FOPS_TRY(route->scratch.reserve(scratch));
    FOPS_CUDA(cudaMemsetAsync(route->scratch.as(), 0, scratch, compute_));
  }
  if (workspace > 0) FOPS_TRY(route->workspace.reserve(workspace));
  FOPS_CUDA(cudaStreamSynchronize(compute_));
  route->capacity = n;
  return FOPS_OK;
}

// ---- the stages -------------------------------------------------------------------------------------------------

// The data, from item `first` on.
Tensor CudaExecutor::input(const void* data, fops_dtype type, int64_t first) const {
  Tensor x;
  x.form = type == FOPS_UINT8 ? Tensor::Form::uint8 : Tensor::Form::float32;
  x.data = const_cast<char*>(static_cast<const char*>(data)) + first * in_bytes(type);  // no step writes to its input
  return x;
}

// Where a step writes, from item `first` on: its buffer, or the last one `out`.
Tensor CudaExecutor::output(const Route& route, size_t index, float* out, int64_t first) const {
  const Step& step = route.steps[index];
  void* const memory = index + 1 < route.steps.size() ? route.buffers[index].as() : out;
  Tensor y;
  y.form = step.form;
  y.scale = step.scale;
  if (y.form == Tensor::Form::halves) {
    const int64_t stride = dense_stride(step.out.size());
    y.data = static_cast<__half*>(memory) + first * stride;
    y.lo = static_cast<__half*>(y.data) + route.capacity * stride;
  } else {
    y.data = static_cast<float*>(memory) + first * step.out.size();
  }
  return y;
}

// Queues the steps from `from` on. `marks`, when given, are recorded before the first of them and behind each.
fops_status CudaExecutor::run(const Route& route, size_t from, int64_t n, Tensor x, float* out,
                              std::vector<Event>* marks, cudaStream_t stream) {
  // Inside a capture a plain record would only order the graph; an external one is a node that takes the time.
  cudaStreamCaptureStatus capture = cudaStreamCaptureStatusNone;
  FOPS_CUDA(cudaStreamIsCapturing(stream, &capture));
  const unsigned flags = capture == cudaStreamCaptureStatusActive ? cudaEventRecordExternal : cudaEventRecordDefault;
  if (marks != nullptr) FOPS_CUDA(cudaEventRecordWithFlags((*marks)[from], stream, flags));
  for (size_t i = from; i < route.steps.size(); ++i) {
    const Tensor y = output(route, i, out, 0);
    FOPS_TRY(run_step(route.steps[i], n, x, y, route, stream));
    if (marks != nullptr) FOPS_CUDA(cudaEventRecordWithFlags((*marks)[i + 1], stream, flags));
    x = y;
  }
  return FOPS_OK;
}

// What `queue` puts on compute_, as a graph.
template <typename F>
fops_status CudaExecutor::capture(Graph* graph, F queue) {
  FOPS_CUDA(cudaStreamBeginCapture(compute_, cudaStreamCaptureModeThreadLocal));
  const fops_status status = queue();
  cudaGraph_t captured = nullptr;
  cudaError_t error = cudaStreamEndCapture(compute_, &captured);
  if (status == FOPS_OK && error == cudaSuccess) error = cudaGraphInstantiate(&graph->exec, captured, 0);
  if (captured != nullptr) cudaGraphDestroy(captured);  // the executable one holds a copy
  if (status != FOPS_OK || error != cudaSuccess) graph->clear();
  if (status != FOPS_OK) return status;
  return error == cudaSuccess ? FOPS_OK : cuda_failed(error, "capture of a CUDA graph");
}

fops_status CudaExecutor::run_step(const Step& step, int64_t n, const Tensor& x, const Tensor& y, const Route& route,
                                   cudaStream_t stream) {
  const Stage& stage = plan_.stages[step.stage];
  const StageWeights& w = weights_[step.stage];
  float* const to = static_cast<float*>(y.data);
  const fops_dtype type = x.form == Tensor::Form::uint8 ? FOPS_UINT8 : FOPS_FLOAT32;
  const Kernel* kernel = nullptr;
  switch (step.kind) {
    case Step::Kind::conv_pixels: return run_conv_pixels(stage, w.pixels, w.w, n, x, y, stream);
    case Step::Kind::conv: {
      const fops_conv conv{n, stage.in.C, stage.in.H, stage.in.W, stage.out.C, stage.K, type};
      FOPS_TRY(validate(&conv));
      FOPS_TRY(find(FOPS_GPU, "auto", conv, &kernel));
      Tensor plain;
      plain.data = step.scratch > 0 ? route.scratch.as() : to;
      FOPS_TRY(kernel->run(conv, x.data, w.w, static_cast<float*>(plain.data), stream));
      if (step.scratch == 0) return FOPS_OK;
      const Item unpooled{stage.out.C, out_h(conv), out_w(conv)};
      return run_map(unpooled, stage.out, stage.tanh, stage.pool, n, plain, y, stream);
    }
    case Step::Kind::map: return run_map(step.in, step.out, step.tanh, step.pool, n, x, y, stream);
    case Step::Kind::dense:
      return dense(w.dense, n, static_cast<const __half*>(x.data), x.lo, 1.0f / x.scale, step.tanh, products_, to,
                   route.workspace.as(), stream);
    case Step::Kind::dense_plain: {
      // A dense layer is a 1x1 convolution over an image of one pixel with a channel a value.
      const fops_conv conv{n, step.in.size(), 1, 1, step.out.size(), 1, type};
      FOPS_TRY(validate(&conv));
      FOPS_TRY(find(FOPS_GPU, "implicit-gemm", conv, &kernel));
      FOPS_TRY(kernel->run(conv, x.data, w.w, to, stream));
      return run_bias_tanh(n, step.out.size(), w.bias, step.tanh, to, stream);
    }
    case Step::Kind::few_units:
      return run_few_units(n, step.in.size(), step.out.size(), x, w.w, w.bias, step.tanh, step.softmax, to, stream);
    case Step::Kind::softmax: return run_softmax(n, step.in.size(), x, to, stream);
  }
  return fail(FOPS_INVALID, "a step of no known kind");
}

// ---- data on the device -----------------------------------------------------------------------------------------

fops_status CudaExecutor::forward_device(int64_t n, const void* data, fops_dtype type, float* out, void* stream) {
  DeviceScope scope;
  FOPS_TRY(scope.enter(device_));
  const auto on = static_cast<cudaStream_t>(stream);
  cudaStreamCaptureStatus state = cudaStreamCaptureStatusNone;
  FOPS_CUDA(cudaStreamIsCapturing(on, &state));
  const bool captured = state != cudaStreamCaptureStatusNone;  // a caller's own graph: what orders passes is its affair

  int64_t slice = 0;
  if (!routes_[type].made || routes_[type].slice(n) > routes_[type].capacity) {
    if (captured)
      return fail(FOPS_INVALID, "a first pass of this size allocates, which a stream under capture does not allow: "
                                "run it once before the capture");
    FOPS_CUDA(cudaEventSynchronize(idle_));  // the buffers about to be replaced may be in use
  }
  FOPS_TRY(prepare(type, n, 0, &slice));
  const Route& route = routes_[type];

  // The buffers are one pass's at a time, whichever streams the passes are on.
  if (!captured && on != last_stream_) FOPS_CUDA(cudaStreamWaitEvent(on, idle_, 0));

  const bool repeated = device_graph_.is_for(n, data, type, out);
  if (!captured && repeated && n <= kGraphItems && n <= slice) {
    if (device_graph_.exec == nullptr)
      FOPS_TRY(capture(&device_graph_, [&] { return run(route, 0, n, input(data, type, 0), out, nullptr, compute_); }));
    FOPS_CUDA(cudaGraphLaunch(device_graph_.exec, on));
  } else {
    if (!captured && !repeated) device_graph_.remember(n, data, type, out);
    for (int64_t first = 0; first < n; first += slice)
      FOPS_TRY(run(route, 0, std::min(slice, n - first), input(data, type, first), out + first * plan_.out().size(),
                   nullptr, on));
  }
  if (!captured) {
    FOPS_CUDA(cudaEventRecord(idle_, on));
    last_stream_ = on;
  }
  return FOPS_OK;
}

// ---- data on the host -------------------------------------------------------------------------------------------

// memcpy on several threads: one moves some 6 GB/s into pinned memory, the bus takes 50.
void copy(void* to, const void* from, int64_t bytes) {
  constexpr int64_t kPiece = 256 << 10;
  constexpr int kThreads = 8;
  const int64_t pieces = ceil_div(bytes, kPiece);
  parallel_for(pieces, static_cast<int>(std::min<int64_t>(pieces, std::min(kThreads, pool_threads()))),
               [=](int64_t piece, int) {
                 const int64_t at = piece * kPiece;
                 memcpy(static_cast<char*>(to) + at, static_cast<const char*>(from) + at,
                        static_cast<size_t>(std::min(kPiece, bytes - at)));
               });
}

// Adds the seconds between two events that have passed to *sum, if there is one.
fops_status add_time(cudaEvent_t start, cudaEvent_t stop, double* sum) {
  if (sum == nullptr) return FOPS_OK;
  float milliseconds = 0.0f;
  FOPS_CUDA(cudaEventElapsedTime(&milliseconds, start, stop));
  *sum += milliseconds / 1e3;
  return FOPS_OK;
}

// Whether the copy engines can reach this host memory by themselves, from end to end.
bool is_pinned(const void* memory, int64_t bytes) {
  for (const char* at : {static_cast<const char*>(memory), static_cast<const char*>(memory) + bytes - 1}) {
    cudaPointerAttributes attributes;
    if (cudaPointerGetAttributes(&attributes, at) != cudaSuccess) {
      cudaGetLastError();
      return false;
    }
    if (attributes.type != cudaMemoryTypeHost) return false;
  }
  return true;
}

fops_status CudaExecutor::forward(int64_t n, const void* data, fops_dtype type, float* out,
                                  std::vector<double>* seconds, double* upload, double* download) {
  if (seconds != nullptr) seconds->assign(plan_.stages.size(), 0.0);
  if (upload != nullptr) *upload = 0.0;
  if (download != nullptr) *download = 0.0;
  DeviceScope scope;
  FOPS_TRY(scope.enter(device_));
  FOPS_CUDA(cudaEventSynchronize(idle_));
  int64_t slice = 0;
  fops_status status = prepare(type, n, kSlots * (in_bytes(type) + out_bytes()), &slice);
  if (status == FOPS_OK)
    status = n <= std::min(slice, kGraphItems) ? run_small(n, data, type, out, seconds, upload, download)
                                               : run_slices(n, slice, data, type, out, seconds, upload, download);
  if (status != FOPS_OK) {
    // Copies from and to the caller's memory may be under way. The message stays that of the first failure.
    for (const Stream* stream : {&up_, &compute_, &down_})
      if (cudaStreamSynchronize(*stream) != cudaSuccess) cudaGetLastError();
    for (Slot& slot : slots_) slot.n = 0;
  }
  return status;
}

fops_status CudaExecutor::reserve_slot(Slot* slot, int64_t n, fops_dtype type, bool in_pinned, bool out_pinned) {
  const size_t in = static_cast<size_t>(n * in_bytes(type)), out = static_cast<size_t>(n * out_bytes());
  FOPS_TRY(slot->in.reserve(in));
  FOPS_TRY(slot->out.reserve(out));
  FOPS_TRY(slot->spans.reserve(kParts * sizeof(Span)));
  FOPS_TRY(slot->host_spans.reserve(kParts * sizeof(Span)));
  if (!in_pinned) FOPS_TRY(slot->host_in.reserve(in));
  if (!out_pinned) FOPS_TRY(slot->host_out.reserve(out));
  return FOPS_OK;
}

// A batch that one slice holds, on one stream.
fops_status CudaExecutor::run_small(int64_t n, const void* data, fops_dtype type, float* out,
                                    std::vector<double>* seconds, double* upload, double* download) {
  const Route& route = routes_[type];
  Slot& slot = slots_[0];
  FOPS_TRY(reserve_slot(&slot, n, type, false, false));
  char* const staged = slot.host_in.get();
  float* const result = reinterpret_cast<float*>(slot.host_out.get());
  memcpy(staged, data, static_cast<size_t>(n * in_bytes(type)));

  // Kernels that touch each byte once may do so over the bus; the others get copies.
  const Step::Kind first = route.steps.front().kind, last = route.steps.back().kind;
  const bool copy_in = first != Step::Kind::conv_pixels;
  const bool copy_out = last != Step::Kind::few_units && last != Step::Kind::softmax;
  const auto queue = [&]() -> fops_status {
    cudaStreamCaptureStatus status = cudaStreamCaptureStatusNone;
    FOPS_CUDA(cudaStreamIsCapturing(compute_, &status));
    const unsigned flags = status == cudaStreamCaptureStatusActive ? cudaEventRecordExternal : cudaEventRecordDefault;
    if (copy_in) {
      FOPS_CUDA(cudaEventRecordWithFlags(slot.upload_start, compute_, flags));
      FOPS_CUDA(cudaMemcpyAsync(slot.in.as(), staged, n * in_bytes(type), cudaMemcpyHostToDevice, compute_));
    }
    float* const to = copy_out ? slot.out.as<float>() : result;
    FOPS_TRY(run(route, 0, n, input(copy_in ? slot.in.as() : staged, type, 0), to, &slot.marks, compute_));
    if (copy_out) {
      FOPS_CUDA(cudaMemcpyAsync(result, to, n * out_bytes(), cudaMemcpyDeviceToHost, compute_));
      FOPS_CUDA(cudaEventRecordWithFlags(slot.downloaded, compute_, flags));
    }
    return FOPS_OK;
  };
  if (host_graph_.is_for(n, staged, type, result)) {
    if (host_graph_.exec == nullptr) FOPS_TRY(capture(&host_graph_, queue));
    FOPS_CUDA(cudaGraphLaunch(host_graph_.exec, compute_));
  } else {
    host_graph_.remember(n, staged, type, result);
    FOPS_TRY(queue());
  }
  FOPS_CUDA(cudaStreamSynchronize(compute_));
  memcpy(out, result, static_cast<size_t>(n * out_bytes()));

  const size_t steps = route.steps.size();
  if (seconds != nullptr)
    for (size_t i = 0; i < steps; ++i)
      FOPS_TRY(add_time(slot.marks[i], slot.marks[i + 1], &(*seconds)[route.steps[i].stage]));
  if (copy_in) FOPS_TRY(add_time(slot.upload_start, slot.marks[0], upload));
  if (copy_out) FOPS_TRY(add_time(slot.marks[steps], slot.downloaded, download));
  return FOPS_OK;
}

fops_status CudaExecutor::run_slices(int64_t n, int64_t slice, const void* data, fops_dtype type, float* out,
                                     std::vector<double>* seconds, double* upload, double* download) {
  const bool in_pinned = is_pinned(data, n * in_bytes(type)), out_pinned = is_pinned(out, n * out_bytes());
  slice = ceil_div(n, ceil_div(n, slice));  // of even size
  const int slots = static_cast<int>(std::min<int64_t>(kSlots, ceil_div(n, slice)));
  for (int i = 0; i < slots;) {
    const fops_status status = reserve_slot(&slots_[i], slice, type, in_pinned, out_pinned);
    if (status == FOPS_OK) {
      ++i;
    } else if (status != FOPS_OUT_OF_MEMORY || slice == 1) {
      return status;
    } else {
      slice = (slice + 1) / 2;
      for (Slot& slot : slots_) FOPS_TRY(slot.release());
      i = 0;
    }
  }
  const Route& route = routes_[type];
  int turn = 0;
  for (int64_t first = 0; first < n; first += slice, turn = (turn + 1) % slots) {
    Slot& slot = slots_[turn];
    FOPS_TRY(finish(route, &slot, out, out_pinned, seconds, upload, download));  // the slice before in this slot
    slot.first = first;
    slot.n = std::min(slice, n - first);
    FOPS_TRY(queue_slice(route, &slot, static_cast<const char*>(data), type, out, in_pinned, out_pinned));
  }
  for (int i = 0; i < slots; ++i, turn = (turn + 1) % slots)
    FOPS_TRY(finish(route, &slots_[turn], out, out_pinned, seconds, upload, download));
  return FOPS_OK;
}

fops_status CudaExecutor::queue_slice(const Route& route, Slot* slot, const char* data, fops_dtype type, float* out,
                                      bool in_pinned, bool out_pinned) {
  const int64_t an_item = in_bytes(type);
  const int64_t parts = std::max<int64_t>(1, std::min<int64_t>(kParts, slot->n * an_item / kLeastPart));
  const int64_t part = ceil_div(ceil_div(slot->n, parts), 16) * 16;  // items; each part aligned as the first is
  float* const result = slot->out.as<float>();
  slot->parts = 0;
  FOPS_CUDA(cudaEventRecord(slot->upload_start, up_));
  for (int64_t at = 0; at < slot->n; at += part) {
    const int i = slot->parts++;
    const int64_t count = std::min(part, slot->n - at);
    const char* from = data + (slot->first + at) * an_item;
    char* const to = slot->in.as<char>() + at * an_item;
    if (!in_pinned) {
      char* const staged = slot->host_in.get() + at * an_item;
      copy(staged, from, count * an_item);
      from = staged;
    }
    FOPS_CUDA(cudaMemcpyAsync(to, from, count * an_item, cudaMemcpyHostToDevice, up_));
    FOPS_CUDA(cudaEventRecord(slot->uploaded[i], up_));
    FOPS_CUDA(cudaStreamWaitEvent(compute_, slot->uploaded[i], 0));
    Span* const span = slot->spans.as<Span>() + i;
    FOPS_TRY(run_stamp(&span->begin, compute_));
    FOPS_TRY(run_step(route.steps[0], count, input(slot->in.as(), type, at), output(route, 0, result, at), route,
                      compute_));
    FOPS_TRY(run_stamp(&span->end, compute_));
  }
  FOPS_TRY(run(route, 1, slot->n, output(route, 0, result, 0), result, &slot->marks, compute_));
  FOPS_CUDA(cudaEventRecord(slot->computed, compute_));

  FOPS_CUDA(cudaStreamWaitEvent(down_, slot->computed, 0));
  FOPS_CUDA(cudaEventRecord(slot->download_start, down_));
  char* const to = out_pinned ? reinterpret_cast<char*>(out) + slot->first * out_bytes() : slot->host_out.get();
  FOPS_CUDA(cudaMemcpyAsync(to, result, slot->n * out_bytes(), cudaMemcpyDeviceToHost, down_));
  FOPS_CUDA(cudaEventRecord(slot->downloaded, down_));
  FOPS_CUDA(cudaMemcpyAsync(slot->host_spans.get(), slot->spans.as(), slot->parts * sizeof(Span),
                            cudaMemcpyDeviceToHost, down_));
  FOPS_CUDA(cudaEventRecord(slot->timed, down_));
  return FOPS_OK;
}

// Waits for the slice in this slot, if any; delivers its output and adds up its times.
fops_status CudaExecutor::finish(const Route& route, Slot* slot, float* out, bool out_pinned,
                                 std::vector<double>* seconds, double* upload, double* download) {
  if (slot->n == 0) return FOPS_OK;
  FOPS_CUDA(cudaEventSynchronize(slot->downloaded));
  if (!out_pinned)
    copy(reinterpret_cast<char*>(out) + slot->first * out_bytes(), slot->host_out.get(), slot->n * out_bytes());
  FOPS_CUDA(cudaEventSynchronize(slot->timed));
  slot->n = 0;
  if (seconds != nullptr) {
    const auto& steps = route.steps;
    const Span* const spans = reinterpret_cast<const Span*>(slot->host_spans.get());
    for (int i = 0; i < slot->parts; ++i)
      (*seconds)[steps[0].stage] += static_cast<double>(spans[i].end - spans[i].begin) * 1e-9;
    for (size_t i = 1; i < steps.size(); ++i)
      FOPS_TRY(add_time(slot->marks[i], slot->marks[i + 1], &(*seconds)[steps[i].stage]));
  }
  FOPS_TRY(add_time(slot->upload_start, slot->uploaded[slot->parts - 1], upload));
  return add_time(slot->download_start, slot->downloaded, download);
}

}  // namespace

fops_status make_gpu_executor(const Plan& plan, int device, const char* precision, std::unique_ptr<Executor>* out) {
  const std::string name = precision == nullptr ? "" : precision;
  // "fp16" and "tf32" leave out the products that restore float32 grade in the large dense layers, where most of the
  // work is; both round operands to 11 bits, and on these GPUs halves are twice as fast as TF32 proper. Convolutions
  // stay at float32 grade, which costs them little: see the times in conv/cuda/13_half.cu.
  int products = 3;
  if (name == "fp16" || name == "tf32")
    products = 1;
  else if (name != "float32" && !name.empty())
    return fail(FOPS_INVALID, "no precision '%s': float32, tf32 and fp16 are known", name.c_str());
  auto executor = std::make_unique<CudaExecutor>(plan, device, products);
  FOPS_TRY(executor->open());
  *out = std::move(executor);
  return FOPS_OK;
}

}  // namespace fops
