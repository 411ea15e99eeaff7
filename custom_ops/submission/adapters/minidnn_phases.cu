// Adapter for sp2021 and later: class GPUInterface with three phases, prolog, forward and epilog, over host tensors. Op Time
// is the time of forward and a device synchronise; Layer Time is the time of all three phases. In fa2023 each phase has one
// more parameter, the stride (-DFOPS_STRIDE).
#include "device.cuh"

// Device pointers that prolog sets.
struct FopsPointers {
  float *y = nullptr, *x = nullptr, *k = nullptr;  // some files keep k in constant memory and leave it unset
};
// These functions call the file's phases. They are defined after the #include of the file, because its macros may change
// code there.
static void fops_prolog(fops_plugin_call* fops_call, FopsPointers* fops_on_device);
static void fops_forward(fops_plugin_call* fops_call, FopsPointers* fops_on_device);
static void fops_epilog(fops_plugin_call* fops_call, FopsPointers* fops_on_device);

namespace fops_adapter {

using Values = std::vector<float>;

// Whether values are equal except for rounding errors, which vary from run to run with atomic additions. NaN equals NaN.
static bool same(const Values& a, const Values& b) {
  float scale = 0;
  for (const float v : a)
    if (std::isfinite(v)) scale = std::fmax(scale, std::fabs(v));
  for (size_t i = 0; i < a.size(); ++i)
    if (std::isnan(a[i]) != std::isnan(b[i]) || std::fabs(a[i] - b[i]) > 1e-4f * scale) return false;
  return true;
}

// Returns how many values are NaN in `after` but not in `before`.
static size_t lost(const Values& before, const Values& after) {
  size_t count = 0;
  for (size_t i = 0; i < before.size(); ++i) count += std::isnan(after[i]) && !std::isnan(before[i]);
  return count;
}

// Runs a second pass, checks the outputs between its phases, and sets call->findings. Before and after, call->y holds the
// output of the first pass.
static int look(fops_plugin_call* call, const Sizes& s) {
  const size_t n = s.outputs(), bytes = n * sizeof(float);
  const Values wanted(call->y, call->y + n);
  std::fill(call->y, call->y + n, NAN);
  poison_free_memory(n);
  FopsPointers on_device;
  fops_prolog(call, &on_device);
  int status = settle(call, "conv_forward_gpu_prolog");
  if (status != FOPS_OK) return status;
  const bool complete = std::none_of(wanted.begin(), wanted.end(), [](float v) { return std::isnan(v); });
  if (complete && same(wanted, Values(call->y, call->y + n))) call->findings |= FOPS_FOUND_WORK_BEFORE;

  const bool readable = bytes_behind(on_device.y) >= bytes;
  Values before, after;
  bool zeroed = false;
  if (readable) {
    before.resize(n);
    cudaMemcpy(before.data(), on_device.y, bytes, cudaMemcpyDeviceToHost);
    zeroed = std::all_of(before.begin(), before.end(), [](float v) { return v == 0; });
    // Fills y with NaN, to see which outputs forward writes. If prolog has set y to zero, forward may add to it, so y then
    // stays as it is.
    if (!zeroed) poison(on_device.y, n);
  }
  fops_forward(call, &on_device);
  status = settle(call, "conv_forward_gpu");
  if (status == FOPS_OK && readable) {
    after.resize(n);
    cudaMemcpy(after.data(), on_device.y, bytes, cudaMemcpyDeviceToHost);
  }
  const Values host_before_epilog(call->y, call->y + n);
  if (status == FOPS_OK) {
    fops_epilog(call, &on_device);
    status = settle(call, "conv_forward_gpu_epilog");
  }
  if (status == FOPS_OK && readable) {
    const Values result(call->y, call->y + n);
    if (complete && 2 * lost(wanted, result) > n && same(wanted, before)) call->findings |= FOPS_FOUND_WORK_BEFORE;
    // If the result was in host memory before epilog, epilog has nothing to copy, and `after` does not matter.
    if (!same(after, result) && !same(host_before_epilog, result)) call->findings |= FOPS_FOUND_WORK_AFTER;
  }
  std::copy(wanted.begin(), wanted.end(), call->y);
  return status;
}

static int run(fops_plugin_call* call) {
  return guarded(call, [call]() -> int {
    const Sizes s(call->conv);
    asked = call->examine;
    poison_free_memory(s.outputs());
    cudaGetLastError();
    FopsPointers on_device;
    const double start = now();
    fops_prolog(call, &on_device);
    const double op_start = now();
    fops_forward(call, &on_device);
    cudaError_t fault = cudaDeviceSynchronize();
    const double op_end = now();
    if (fault != cudaSuccess)
      return fail(call, FOPS_DEVICE_ERROR, "CUDA error after conv_forward_gpu: %s", cudaGetErrorString(fault));
    fops_epilog(call, &on_device);
    call->layer_seconds = now() - start;
    call->op_seconds = op_end - op_start;
    const int status = settle(call, "the three phases");
    return status == FOPS_OK && call->examine & FOPS_EXAMINE ? look(call, s) : status;
  });
}

}  // namespace fops_adapter

FOPS_EXPORT_KERNEL(FOPS_GPU, 1, 0, 1000, fops_adapter::run)

#ifdef FOPS_STRIDE
#define FOPS_SIZES(s) s.B, s.M, s.C, s.H, s.W, s.K, 1
#else
#define FOPS_SIZES(s) s.B, s.M, s.C, s.H, s.W, s.K
#endif
template <typename Gpu>
static void fops_call_prolog(Gpu& gpu, fops_plugin_call* call, FopsPointers* d) {
  const fops_adapter::Sizes s(call->conv);
  // In some years these parameters are not const. The memory itself is not const, so const_cast is safe.
  gpu.conv_forward_gpu_prolog(call->y, const_cast<float*>(call->x), const_cast<float*>(call->k), &d->y, &d->x, &d->k,
                              FOPS_SIZES(s));
}
template <typename Gpu>
static void fops_call_forward(Gpu& gpu, fops_plugin_call* call, FopsPointers* d) {
  const fops_adapter::Sizes s(call->conv);
  gpu.conv_forward_gpu(d->y, d->x, d->k, FOPS_SIZES(s));
}
template <typename Gpu>
static void fops_call_epilog(Gpu& gpu, fops_plugin_call* call, FopsPointers* d) {
  const fops_adapter::Sizes s(call->conv);
  gpu.conv_forward_gpu_epilog(call->y, d->y, d->x, d->k, FOPS_SIZES(s));
}

#define cudaMalloc fops_adapter::filled_malloc
#include "fops_submission.inc"  // written for each build: it includes the kernel file

static GPUInterface fops_interface;  // the same for all calls, because the class may keep pointers between phases

static void fops_prolog(fops_plugin_call* fops_call, FopsPointers* fops_on_device) {
  fops_call_prolog(fops_interface, fops_call, fops_on_device);
}
static void fops_forward(fops_plugin_call* fops_call, FopsPointers* fops_on_device) {
  fops_call_forward(fops_interface, fops_call, fops_on_device);
}
static void fops_epilog(fops_plugin_call* fops_call, FopsPointers* fops_on_device) {
  fops_call_epilog(fops_interface, fops_call, fops_on_device);
}
