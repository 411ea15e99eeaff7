// Stores the registered kernels, and calls them.
#include "conv/plugin.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <cstring>
#include <deque>
#include <limits>
#include <mutex>
#include <set>
#include <string>
#include <vector>

#include "base/status.h"
#include "base/stdout_capture.h"
#include "conv/dispatch.h"

namespace fops {

struct Plugin {
  std::string name, summary, takes, precision;
  const fops_kernel_plugin* described;
  std::mutex mutex;                         // held during a call of run(), so that only one thread at a time calls it
  std::set<std::array<int64_t, 6>> shapes;  // shapes for which first_time was called
  std::string notice;                       // the last notice that was printed
};

namespace {

struct Registered {
  std::mutex mutex;
  std::deque<Plugin> plugins;              // a deque, because a pointer to an element stays valid when others are added
  std::deque<Kernel> kernels[2];           // one list for each backend
  std::atomic<int> count[2] = {{0}, {0}};  // lengths of these lists
};

Registered& registered() {
  static Registered* all = new Registered;  // never destroyed: threads may use it after static objects are destroyed
  return *all;
}

std::atomic<int> g_examine{0};

std::string text(const char* s) { return s ? s : ""; }

}  // namespace

int kernel_count(fops_backend backend) { return kernels_of(backend).count + registered().count[backend == FOPS_GPU]; }

const Kernel* kernel_at(fops_backend backend, int index) {
  const KernelTable table = kernels_of(backend);
  if (index < 0) return nullptr;
  if (index < table.count) return &table.kernels[index];
  Registered& all = registered();
  std::lock_guard<std::mutex> lock(all.mutex);
  const auto& kernels = all.kernels[backend == FOPS_GPU];
  const size_t at = static_cast<size_t>(index - table.count);
  return at < kernels.size() ? &kernels[at] : nullptr;
}

fops_status register_kernel(const char* name, const fops_kernel_plugin* plugin) {
  if (!name || !*name || !plugin) return fail(FOPS_INVALID, "a kernel to register needs a name and a description");
  if (plugin->abi != FOPS_PLUGIN_ABI)
    return fail(FOPS_INVALID, "kernel '%s' was built for version %u of fashion_ops_plugin.h, this library has %u", name,
                static_cast<unsigned>(plugin->abi), static_cast<unsigned>(FOPS_PLUGIN_ABI));
  if ((plugin->backend != FOPS_CPU && plugin->backend != FOPS_GPU) || !plugin->run || plugin->batch_multiple < 1 ||
      (plugin->backend == FOPS_CPU && !plugin->host_memory))
    return fail(FOPS_INVALID, "kernel '%s' describes itself wrongly: its backend, memory, batch_multiple or run", name);
  const fops_backend backend = plugin->backend;
  if (!kernels_of(backend).count)
    return fail(FOPS_NO_DEVICE, "kernel '%s' is for the GPU, and this build of the operator library has no CUDA", name);
  static std::mutex registering;  // so that no other thread registers the same name after the check below
  std::lock_guard<std::mutex> one_at_a_time(registering);
  if (!strcmp(name, "auto")) return fail(FOPS_INVALID, "no kernel can be called 'auto'");
  for (int i = 0; i < kernel_count(backend); ++i)
    if (!strcmp(kernel_at(backend, i)->name, name))
      return fail(FOPS_INVALID, "there is a %s kernel called '%s' already", backend == FOPS_GPU ? "CUDA" : "CPU", name);

  Registered& all = registered();
  std::lock_guard<std::mutex> lock(all.mutex);
  Plugin& added = all.plugins.emplace_back();
  added.name = name;
  added.summary = text(plugin->summary);
  added.takes = text(plugin->takes);
  added.precision = text(plugin->precision);
  added.described = plugin;
  Kernel kernel{};
  kernel.name = added.name.c_str();
  kernel.summary = added.summary.c_str();
  kernel.takes = added.takes.c_str();
  kernel.precision = added.precision.c_str();
  kernel.plugin = &added;
  all.kernels[backend == FOPS_GPU].push_back(kernel);
  ++all.count[backend == FOPS_GPU];
  return FOPS_OK;
}

void examine(int asked) noexcept { g_examine = asked; }
int examining() noexcept { return g_examine; }
// The judge can distinguish this NaN from those that a GPU computes, because theirs have all bits of the mantissa set.
float unwritten() noexcept {
  return examining() & FOPS_OUTPUT_NUMBER ? FOPS_NUMBER : std::numeric_limits<float>::quiet_NaN();
}

const fops_kernel_plugin& described(const Plugin& plugin) { return *plugin.described; }

bool takes(const Kernel& kernel, const fops_conv& conv) {
  if (!kernel.plugin) return kernel.accepts(conv);
  const fops_kernel_plugin& plugin = *kernel.plugin->described;
  // The sizes must fit into int, in which all formats of kernel files have them.
  for (const int64_t size : {conv.B, conv.C, conv.H, conv.W, conv.M, conv.K})
    if (size > std::numeric_limits<int>::max()) return false;
  return !plugin.accepts || plugin.accepts(&conv);
}

bool first_time(const Kernel& kernel, const fops_conv& c) {
  std::lock_guard<std::mutex> lock(kernel.plugin->mutex);
  return kernel.plugin->shapes.insert({c.B, c.C, c.H, c.W, c.M, c.K}).second;
}

int64_t slice_of(const Kernel& kernel, int64_t fit) {
  const int64_t multiple = kernel.plugin->described->batch_multiple;
  return fit > multiple ? fit / multiple * multiple : fit;
}

fops_status call_plugin(const Kernel& kernel, const fops_conv& conv, const float* x, const float* k, float* y,
                        void* stream, bool quiet, PluginTimes* times) {
  Plugin& plugin = *kernel.plugin;
  std::lock_guard<std::mutex> lock(plugin.mutex);
  fops_plugin_call call{};
  call.conv = conv;
  call.conv.x_type = FOPS_FLOAT32;
  call.x = x;
  call.k = k;
  call.y = y;
  call.stream = stream;
  call.examine = examining() & (quiet ? ~FOPS_EXAMINE : ~0);
  call.op_seconds = -1;
  int status = FOPS_OK;
  {
    StdoutCapture capture(kernel.name, quiet);
    try {
      status = plugin.described->run(&call);
    } catch (...) {  // a plug-in that shares this library's C++ runtime may throw exceptions
      caught();
      return fail(FOPS_DEVICE_ERROR, "kernel '%s' threw an exception (%s)", kernel.name,
                  std::string(last_message()).c_str());
    }
  }
  call.message[sizeof call.message - 1] = 0;
  if (status != FOPS_OK)
    return fail(status < FOPS_OK || status > FOPS_DEVICE_ERROR ? FOPS_DEVICE_ERROR : static_cast<fops_status>(status),
                "kernel '%s': %s", kernel.name, *call.message ? call.message : "failed without a message");
  if (*call.message && plugin.notice != call.message) {
    plugin.notice = call.message;
    tell(kernel.name, call.message);
  }
  *times = {call.op_seconds, call.layer_seconds, call.findings};
  return FOPS_OK;
}

fops_status call_on_host(const Kernel& kernel, const fops_conv& conv, const void* x, const float* k, float* y,
                         bool quiet, PluginTimes* times) {
  const size_t inputs = static_cast<size_t>(conv.B * conv.C * conv.H * conv.W);
  const size_t outputs = static_cast<size_t>(conv.B * conv.M * out_h(conv) * out_w(conv));
  std::vector<float> wide;
  if (conv.x_type == FOPS_UINT8) {
    const auto pixels = static_cast<const uint8_t*>(x);
    wide.assign(pixels, pixels + inputs);
  }
  const float* data = wide.empty() ? static_cast<const float*>(x) : wide.data();
  std::fill(y, y + outputs, kernel.plugin->described->zero_output ? 0.f : unwritten());
  return call_plugin(kernel, conv, data, k, y, nullptr, quiet, times);
}

}  // namespace fops
