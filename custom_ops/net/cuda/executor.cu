// The CUDA executor: runs a plan's stages on one device. The activations between stages stay on the device.
//
//   weights.h      uploads changed weights and rearranges them for the kernels
//   route.h        chooses the kernels of the stages for data of one type
//   steps.h        runs these kernels
//   buffers.h      owns the memory that they write to
//   slices.h       passes with data on the host: small batches at once, larger ones in slices with overlapping transfers
//   graph_cache.h  captures a repeated call in a CUDA graph and replays it
//
// A batch is processed in slices of items. A slice is as large as memory allows, because the matrix product of a large
// dense layer needs thousands of rows to be efficient.
#include <algorithm>
#include <memory>
#include <string>

#include "gpu/device.h"
#include "gpu/memory.h"
#include "net/cuda/buffers.h"
#include "net/cuda/graph_cache.h"
#include "net/cuda/slices.h"
#include "net/cuda/steps.h"
#include "net/cuda/weights.h"
#include "net/executor.h"

namespace fops {
namespace {

// A network's weights, buffers, streams and graphs on its device. That device must be current in every call.
class OnDevice {
 public:
  OnDevice(const Plan& plan, int products)
      : plan_(plan), steps_(plan_, weights_, products), slices_(steps_, compute_) {}

  fops_status open(int device);
  fops_status set_weights(const std::vector<Weight>& given);
  fops_status forward(const HostBatch& batch, const PassTimes& times);
  fops_status forward_device(int64_t n, const void* data, fops_dtype type, float* out, cudaStream_t stream);

  bool needs(const std::vector<Weight>& given) const { return weights_.differs(given); }

 private:
  void forget_graphs() noexcept {
    device_graph_.clear();
    slices_.forget_graph();
  }
  fops_status prepare(fops_dtype type, int64_t n, int64_t extra_bytes, int64_t* slice);

  const Plan plan_;
  bool matrix_units_ = false;
  Stream compute_;
  Event idle_;                          // recorded at the end of the last pass, on that pass's stream
  cudaStream_t last_stream_ = nullptr;  // the stream of the last pass
  DeviceWeights weights_;
  Buffers buffers_[2];  // indexed by fops_dtype
  Steps steps_;
  Slices slices_;
  GraphCache device_graph_;
};

fops_status OnDevice::open(int device) {
  int major = 0;
  FOPS_CUDA(cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, device));
  matrix_units_ = major >= 8;
  FOPS_TRY(compute_.create());
  FOPS_TRY(idle_.create(false));
  FOPS_CUDA(cudaEventRecord(idle_, compute_));
  FOPS_TRY(slices_.open(2 * plan_.stages.size() + 1));  // a stage has at most two steps
  weights_.open(plan_, matrix_units_);
  return FOPS_OK;
}

fops_status OnDevice::set_weights(const std::vector<Weight>& given) {
  FOPS_CUDA(cudaEventSynchronize(idle_));  // running passes read the old weights
  forget_graphs();
  for (Buffers& buffers : buffers_) buffers.forget_steps();
  return weights_.take(given, compute_);
}

// Makes the steps for data of this type if needed, and allocates memory for the slices of a batch of n items; *slice
// receives the number of items per slice. Leaves `extra_bytes` per item free for the caller.
fops_status OnDevice::prepare(fops_dtype type, int64_t n, int64_t extra_bytes, int64_t* slice) {
  Buffers& buffers = buffers_[type];
  if (!buffers.made()) FOPS_TRY(buffers.set_steps(make_route(plan_, weights_.stages(), type, matrix_units_)));
  *slice = buffers.slice(n);
  if (buffers.enough_for(n)) return FOPS_OK;
  forget_graphs();
  return buffers.grow(*slice, extra_bytes, weights_.stages(), compute_, slice);
}

fops_status OnDevice::forward(const HostBatch& batch, const PassTimes& times) {
  FOPS_CUDA(cudaEventSynchronize(idle_));
  int64_t slice = 0;
  fops_status status = prepare(batch.type, batch.n, slices_.item_bytes(batch.type), &slice);
  if (status == FOPS_OK) status = slices_.run(buffers_[batch.type], slice, batch, times);
  if (status != FOPS_OK) slices_.abandon();
  return status;
}

fops_status OnDevice::forward_device(int64_t n, const void* data, fops_dtype type, float* out, cudaStream_t stream) {
  cudaStreamCaptureStatus state = cudaStreamCaptureStatusNone;
  FOPS_CUDA(cudaStreamIsCapturing(stream, &state));
  // If the caller is capturing this stream, the caller must order this pass after earlier passes.
  const bool captured = state != cudaStreamCaptureStatusNone;

  if (!buffers_[type].enough_for(n)) {
    if (captured)
      return fail(FOPS_INVALID,
                  "a first pass of this size allocates, which a stream under capture does not allow: "
                  "run it once before the capture");
    FOPS_CUDA(cudaEventSynchronize(idle_));  // a pass may still be using the buffers that are about to be replaced
  }
  int64_t slice = 0;
  FOPS_TRY(prepare(type, n, 0, &slice));
  const Buffers& buffers = buffers_[type];

  // Passes share the buffers, so a pass on another stream than the last one's waits for the end of the last pass.
  if (!captured && stream != last_stream_) FOPS_CUDA(cudaStreamWaitEvent(stream, idle_, 0));

  const bool repeated = device_graph_.is_for(n, data, type, out);
  if (!captured && repeated && n <= kGraphItems && n <= slice) {
    FOPS_TRY(device_graph_.replay(stream, compute_, [&] {
      return steps_.run(buffers, 0, n, steps_.input(data, type, 0), out, nullptr, compute_);
    }));
  } else {
    if (!captured && !repeated) device_graph_.remember(n, data, type, out);
    for (int64_t first = 0; first < n; first += slice)
      FOPS_TRY(steps_.run(buffers, 0, std::min(slice, n - first), steps_.input(data, type, first),
                          out + first * plan_.out().size(), nullptr, stream));
  }
  if (!captured) {
    FOPS_CUDA(cudaEventRecord(idle_, stream));
    last_stream_ = stream;
  }
  return FOPS_OK;
}

// Makes the device current during each call, and reports failed releases as described in gpu/memory.h.
class GpuExecutor : public Executor {
 public:
  explicit GpuExecutor(int device) : device_(device) {}

  ~GpuExecutor() override {
    {
      DeviceScope scope;
      // Work that forward_device queued may still run.
      if (scope.enter(device_) == FOPS_OK) FOPS_RELEASE(cudaDeviceSynchronize());
      network_.reset();
    }
    forget_releases();
  }

  fops_status open(const Plan& plan, int products) {
    DeviceScope scope;
    FOPS_TRY(scope.enter(device_));
    network_ = std::make_unique<OnDevice>(plan, products);
    return network_->open(device_);
  }

  fops_status set_weights(const std::vector<Weight>& given) override {
    if (!network_->needs(given)) return FOPS_OK;
    return on_device([&] { return network_->set_weights(given); });
  }

  fops_status forward(int64_t n, const void* data, fops_dtype type, float* out, std::vector<double>* seconds,
                      double* upload, double* download) override {
    return on_device([&] { return network_->forward({n, data, type, out, false}, {seconds, upload, download}); });
  }

  fops_status predict(int64_t n, const void* data, fops_dtype type, int32_t* classes) override {
    return on_device([&] { return network_->forward({n, data, type, classes, true}, {}); });
  }

  fops_status forward_device(int64_t n, const void* data, fops_dtype type, float* out, void* stream) override {
    const auto on = static_cast<cudaStream_t>(stream);
    return on_device([&] { return network_->forward_device(n, data, type, out, on); });
  }

 private:
  template <typename F>
  fops_status on_device(F work) {
    const auto scoped = [&]() -> fops_status {
      DeviceScope scope;
      FOPS_TRY(scope.enter(device_));
      return work();
    };
    return finish(scoped());
  }

  const int device_;
  std::unique_ptr<OnDevice> network_;
};

fops_status make(const Plan& plan, int device, const char* precision, std::unique_ptr<Executor>* out) {
  const std::string name = precision;
  // With "fp16" and "tf32" the large dense layers omit the products with low parts, which give float32 accuracy. "tf32"
  // runs the same kernels as "fp16": both formats have significands of 11 bits, and on these GPUs half precision is
  // twice as fast as TF32.
  if (name != "float32" && name != "tf32" && name != "fp16")
    return fail(FOPS_INVALID, "no precision '%s': float32, tf32 and fp16 are known", precision);
  const int products = name == "float32" ? 3 : 1;
  auto executor = std::make_unique<GpuExecutor>(device);
  FOPS_TRY(executor->open(plan, products));
  *out = std::move(executor);
  return FOPS_OK;
}

}  // namespace

fops_status make_gpu_executor(const Plan& plan, int device, const char* precision, std::unique_ptr<Executor>* out) {
  return finish(make(plan, device, precision, out));
}

}  // namespace fops
