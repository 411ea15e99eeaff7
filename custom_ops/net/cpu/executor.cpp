// Runs a plan on the CPU. The items are divided into slices that are small enough for the caches, and one thread runs a
// slice through all stages. If there are too few items for that, the threads share the work of each stage.
#include <sys/mman.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdlib>
#include <cstring>

#include "base/isa.h"
#include "base/status.h"
#include "base/thread_pool.h"
#include "net/cpu/stages.h"
#include "net/executor.h"

namespace fops {

const CpuStages& cpu_stages() {
#define FOPS_ADDRESS(set) &set::stages,
  static const CpuStages* const each[] = {FOPS_EACH_ISA(FOPS_ADDRESS)};
#undef FOPS_ADDRESS
  return *each[static_cast<int>(isa())];
}

void softmax(int64_t count, const float* x, float* y) {
  const float top = *std::max_element(x, x + count);
  double sum = 0;
  for (int64_t i = 0; i < count; ++i) sum += y[i] = std::exp(x[i] - top);
  for (int64_t i = 0; i < count; ++i) y[i] = static_cast<float>(y[i] / sum);
}

namespace {

// Limit for the bytes of a thread's two buffers of activations. The weights of a dense stage pass through the caches
// once per slice, so a slice should not be small, but its activations should stay in the cache.
constexpr int64_t kSliceBytes = 8 << 20;
constexpr int64_t kLargestSlice = 256;  // number of items

constexpr size_t kHugePage = 2 << 20;

// Memory that only grows, so that repeated passes allocate nothing. Large blocks use huge pages, which are faster.
// reserve() does not keep the contents, and returns false if out of memory.
class Floats {
 public:
  bool reserve(int64_t count) {
    if (count <= size_) return true;
    const size_t bytes = static_cast<size_t>(count) * sizeof(float);
    const size_t page = bytes < kHugePage ? 64 : kHugePage;
    memory_.reset(static_cast<float*>(aligned_alloc(page, (bytes + page - 1) / page * page)));
    size_ = memory_ ? count : 0;
    if (memory_ && page == kHugePage) madvise(memory_.get(), (bytes + page - 1) / page * page, MADV_HUGEPAGE);
    return memory_ != nullptr;
  }
  float* get() const { return memory_.get(); }

 private:
  struct Free {
    void operator()(float* p) const { free(p); }
  };
  std::unique_ptr<float, Free> memory_;
  int64_t size_ = 0;
};

// The memory of one thread: the activations before and after a stage, and the scratch memory of a stage.
struct Scratch {
  Floats activations[2], stage;
};

double now() { return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count(); }

class CpuExecutor : public Executor {
 public:
  explicit CpuExecutor(const Plan& plan)
      : plan_(plan), kernels_(cpu_stages()), weights_(plan.inputs.size()), versions_(plan.inputs.size()) {
    for (const Stage& s : plan.stages) {
      widest_ = std::max({widest_, s.in.size(), s.out.size()});
      if (s.kind == Stage::Kind::convolution) fixed_ = std::max(fixed_, kernels_.convolution_scratch(s));
      if (s.kind == Stage::Kind::map) fixed_ = std::max(fixed_, kernels_.map_scratch(s));
      if (s.kind == Stage::Kind::dense) padded_ = std::max(padded_, kernels_.dense_padded(s.out.size()));
    }
  }

  fops_status set_weights(const std::vector<Weight>& given) override {
    for (const Stage& s : plan_.stages)
      for (const int index : {s.weight, s.bias}) {
        if (index < 0 || (weights_[index].get() && versions_[index] == given[index].version)) continue;
        const bool packed = s.kind == Stage::Kind::dense && index == s.weight;
        int64_t count = 1;
        for (const int64_t size : plan_.shapes[index]) count *= size;
        const int64_t units = s.out.size();
        if (!weights_[index].reserve(packed ? kernels_.dense_padded(units) * s.in.size() : count)) return no_memory();
        if (packed)
          kernels_.pack_dense(units, s.in.size(), given[index].values, weights_[index].get());
        else
          memcpy(weights_[index].get(), given[index].values, count * sizeof(float));
        versions_[index] = given[index].version;
      }
    return FOPS_OK;
  }

  fops_status forward(int64_t n, const void* data, fops_dtype type, float* out, std::vector<double>* seconds, double*,
                      double*) override {
    const int threads = pool_threads();
    const int64_t largest = std::clamp<int64_t>(kSliceBytes / (8 * widest_), 1, kLargestSlice);
    // Whether each thread runs whole slices; otherwise the threads share the work of each stage. Up to 4 threads share with
    // fewer than 32 items each, because dense weights then pass through the caches once, not once per thread. More threads
    // share only with fewer than 2 items each, because a dense stage has too few panels for them.
    const bool whole = n >= (threads <= 4 ? 32 : 2) * threads;
    const int64_t rounds = (n + threads * largest - 1) / (threads * largest);
    const int64_t slice = whole ? (n + threads * rounds - 1) / (threads * rounds) : n;
    scratch_.resize(std::max<size_t>(scratch_.size(), threads));
    for (int t = 0; t < threads; ++t)
      if (!reserve(&scratch_[t], slice, whole || t == 0)) return no_memory();

    std::vector<std::vector<double>> spent(threads, std::vector<double>(plan_.stages.size()));
    const int64_t item_bytes = plan_.in().size() * (type == FOPS_UINT8 ? 1 : sizeof(float));
    const auto run = [&](int64_t start, int worker, int share) {
      const int64_t count = std::min(slice, n - start);
      stages(count, static_cast<const char*>(data) + start * item_bytes, type, out + start * plan_.out().size(),
             &scratch_[worker], share, &spent[worker]);
    };
    const int64_t slices = (n + slice - 1) / slice;
    if (whole)
      parallel_for(slices, threads, [&](int64_t i, int worker) { run(i * slice, worker, 1); });
    else
      run(0, 0, threads);
    // The threads work in parallel, so a stage's time in the log is the mean over the threads of their times in the stage.
    const int busy = whole ? static_cast<int>(std::min<int64_t>(threads, slices)) : 1;
    for (size_t s = 0; s < plan_.stages.size(); ++s)
      for (const auto& worker : spent) (*seconds)[s] += worker[s] / busy;
    return FOPS_OK;
  }

  fops_status predict(int64_t n, const void* data, fops_dtype type, int32_t* classes) override {
    constexpr int64_t kItems = 8192;  // number of items whose scores are in memory at the same time
    const int64_t values = plan_.out().size(), item = plan_.in().size() * (type == FOPS_UINT8 ? 1 : sizeof(float));
    const auto less = [](float a, float b) { return a < b || (b != b && a == a); };
    std::vector<float> scores(std::min(n, kItems) * values);
    std::vector<double> seconds(plan_.stages.size());
    for (int64_t first = 0; first < n; first += kItems) {
      const int64_t count = std::min(n - first, kItems);
      const void* from = static_cast<const char*>(data) + first * item;
      if (fops_status s = forward(count, from, type, scores.data(), &seconds, nullptr, nullptr)) return s;
      for (int64_t i = 0; i < count; ++i) {
        const float* row = scores.data() + i * values;
        classes[first + i] = static_cast<int32_t>(std::max_element(row, row + values, less) - row);
      }
    }
    return FOPS_OK;
  }

  fops_status forward_device(int64_t, const void*, fops_dtype, float*, void*) override {
    return fail(FOPS_UNSUPPORTED, "a network set up for the CPU takes host memory");
  }

 private:
  static fops_status no_memory() { return fail(FOPS_OUT_OF_MEMORY, "out of host memory; use fewer threads"); }

  // Allocates a thread's memory for slices of `slice` items; without `activations`, only the scratch memory of a stage.
  // Returns false if out of memory.
  bool reserve(Scratch* scratch, int64_t slice, bool activations) {
    for (Floats& a : scratch->activations)
      if (activations && !a.reserve(slice * widest_)) return false;
    return scratch->stage.reserve(std::max(fixed_, activations ? slice * padded_ : 0));
  }

  // Runs all stages on one slice, with `share` threads. Adds the time of each stage to *spent.
  void stages(int64_t count, const void* x, fops_dtype type, float* out, Scratch* scratch, int share,
              std::vector<double>* spent) {
    double begun = now();
    for (size_t i = 0; i < plan_.stages.size(); ++i) {
      const Stage& s = plan_.stages[i];
      float* y = i + 1 == plan_.stages.size() ? out : scratch->activations[i % 2].get();
      if (type == FOPS_UINT8 && s.kind != Stage::Kind::convolution) {
        float* wide = scratch->activations[(i + 1) % 2].get();  // free, because only the first stage can read pixels
        for (int64_t j = 0; j < count * s.in.size(); ++j) wide[j] = static_cast<const uint8_t*>(x)[j];
        x = wide;
      }
      stage(s, count, x, type, y, scratch, share);
      x = y;
      type = FOPS_FLOAT32;
      const double end = now();
      (*spent)[i] += end - begun;
      begun = end;
    }
  }

  void stage(const Stage& s, int64_t count, const void* x, fops_dtype type, float* y, Scratch* scratch, int share) {
    const auto values = static_cast<const float*>(x);
    if (s.kind == Stage::Kind::dense) {
      const float* bias = s.bias < 0 ? nullptr : weights_[s.bias].get();
      each(kernels_.dense_panels(s.out.size()), share, [&](int64_t panel, int) {
        kernels_.dense(s, weights_[s.weight].get(), bias, count, values, panel, scratch->stage.get(), y);
      });
      return;
    }
    const int64_t bytes = s.in.size() * (type == FOPS_UINT8 ? 1 : sizeof(float));
    // If there are fewer items than threads, the convolution of an item is divided into parts.
    int64_t parts = 1;
    if (s.kind == Stage::Kind::convolution && count < share)
      parts = std::min((share + count - 1) / count, kernels_.convolution_parts(s));
    each(count * parts, share, [&](int64_t i, int worker) {
      const int64_t item = i / parts;
      float* to = y + item * s.out.size();
      const float* from = values + item * s.in.size();
      Scratch* own = share > 1 ? &scratch_[worker] : scratch;
      switch (s.kind) {
        case Stage::Kind::convolution:
          kernels_.convolution(s, static_cast<const char*>(x) + item * bytes, type, weights_[s.weight].get(), i % parts,
                               parts, own->stage.get(), to);
          break;
        case Stage::Kind::map: kernels_.map(s, from, own->stage.get(), to); break;
        default: softmax(s.in.size(), from, to);
      }
    });
  }

  template <typename Body>
  static void each(int64_t count, int share, const Body& body) {
    if (share > 1)
      parallel_for(count, share, body);
    else
      for (int64_t i = 0; i < count; ++i) body(i, 0);
  }

  const Plan plan_;
  const CpuStages& kernels_;
  std::vector<Floats> weights_;
  std::vector<uint64_t> versions_;
  std::vector<Scratch> scratch_;
  // Numbers of floats: of the largest item between two stages; of the largest scratch memory of a convolution or map stage;
  // and of the sums of one item in the largest dense stage.
  int64_t widest_ = 0, fixed_ = 0, padded_ = 0;
};

}  // namespace

fops_status make_cpu_executor(const Plan& plan, const char* precision, std::unique_ptr<Executor>* out) {
  if (strcmp(precision, "float32"))
    return fail(FOPS_INVALID, "the CPU computes in float32; precision '%s' is for the GPU", precision);
  *out = std::make_unique<CpuExecutor>(plan);
  return FOPS_OK;
}

}  // namespace fops
