#include "base/thread_pool.h"

#include <pthread.h>
#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <cstdio>
#include <mutex>
#include <system_error>
#include <thread>
#include <vector>

namespace fops {
namespace {

thread_local bool inside_body = false;

// The number of cores that a container's limit allows, or 0 if there is no limit. The limit may be lower than the affinity
// mask shows. The file of cgroup v2 contains "quota period", both in microseconds.
int cgroup_cores() {
  int cores = 0;
  if (FILE* f = fopen("/sys/fs/cgroup/cpu.max", "r")) {
    double quota = 0, period = 0;
    if (fscanf(f, "%lf %lf", &quota, &period) == 2 && quota > 0 && period > 0)
      cores = std::max(1, static_cast<int>(quota / period + 0.5));
    fclose(f);
  }
  return cores;
}

int usable_cores() {
  cpu_set_t set;
  CPU_ZERO(&set);
  int cores = sched_getaffinity(0, sizeof set, &set) == 0 ? CPU_COUNT(&set)
                                                          : static_cast<int>(sysconf(_SC_NPROCESSORS_ONLN));
  const int limit = cgroup_cores();
  if (limit) cores = std::min(cores, limit);
  return std::max(1, cores);
}

void relax() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("yield");
#endif
}

class Pool {
 public:
  // Serves one caller at a time: a second caller waits here, because together they would use more threads than there
  // are cores.
  void run(int64_t count, const std::function<void(int64_t, int)>& body, int threads) {
    std::lock_guard<std::mutex> caller(caller_mutex_);
    const int helpers = static_cast<int>(std::min<int64_t>(threads, count)) - 1;
    start(helpers);
    if (helpers > 0) keep_apart();
    {
      std::lock_guard<std::mutex> lock(mutex_);
      body_ = &body;
      count_ = count;
      next_.store(0, std::memory_order_relaxed);
      active_ = std::min(helpers, workers());
      ++generation_;
      if (active_) wake_.notify_all();
    }
    drain(body, count, 0);
    std::unique_lock<std::mutex> lock(mutex_);
    body_ = nullptr;  // all items are assigned, so a helper that wakes only now need not take part
    if (inside_ != 0) {
      lock.unlock();
      spin([this] { return inside_ == 0; });
      lock.lock();
    }
    done_.wait(lock, [this] { return inside_ == 0; });
  }

  std::atomic<int> wanted{0};  // number of threads that the user set; 0: the default

 private:
  void start(int helpers) {
    // If the system refuses more threads, the pool works with fewer.
    try {
      while (workers() < helpers) {
        handles_.reserve(handles_.size() + 1);  // may throw, therefore done before the thread exists
        std::thread helper(&Pool::work, this, workers() + 1);
        handles_.push_back(helper.native_handle());
        helper.detach();
        kept_from_ = -1;
      }
    } catch (const std::system_error&) {
    }
  }

  // Moves the helpers off the caller's core, to the other cores of the caller's affinity mask. If the scheduler woke a
  // helper on the caller's core, both would share it for longer than a call takes, and two threads would be as slow as
  // one.
  void keep_apart() {
    const int core = sched_getcpu();
    if (core == kept_from_ || core < 0 || workers() > kMostKept) return;
    cpu_set_t cores;
    CPU_ZERO(&cores);
    if (sched_getaffinity(0, sizeof cores, &cores) != 0 || CPU_COUNT(&cores) < 2) return;
    CPU_CLR(static_cast<size_t>(core), &cores);
    for (const pthread_t helper : handles_) pthread_setaffinity_np(helper, sizeof cores, &cores);
    kept_from_ = core;
  }

  void drain(const std::function<void(int64_t, int)>& body, int64_t count, int worker) {
    inside_body = true;
    for (int64_t i; (i = next_.fetch_add(1, std::memory_order_relaxed)) < count;) body(i, worker);
    inside_body = false;
  }

  // Waits in a loop until met() is true, or for 4000 rounds. That is longer than a caller's pause between two passes of
  // one image, because a sleeping thread takes long to wake. docs/notebook.md has the times with fewer and more rounds.
  template <typename Condition>
  static void spin(const Condition& met) {
    for (int i = 0; i < 4000 && !met(); ++i) relax();
  }

  void work(int index) {
    uint64_t seen = 0;
    std::unique_lock<std::mutex> lock(mutex_);
    for (;;) {
      lock.unlock();
      spin([&] { return generation_ != seen; });
      lock.lock();
      wake_.wait(lock, [&] { return generation_ != seen; });
      seen = generation_;
      if (index > active_ || !body_) continue;
      const auto* body = body_;
      const int64_t count = count_;
      ++inside_;
      lock.unlock();
      drain(*body, count, index);
      lock.lock();
      if (--inside_ == 0) done_.notify_one();
    }
  }

  std::mutex caller_mutex_, mutex_;
  std::condition_variable wake_, done_;
  int workers() const { return static_cast<int>(handles_.size()); }

  static constexpr int kMostKept = 16;  // with more helpers, keep_apart does nothing: moving each takes a microsecond
  std::vector<pthread_t> handles_;      // handles of the helpers, which are workers 1 and up; the caller is worker 0
  int kept_from_ = -1;                  // the core that the helpers avoid; -1: none
  const std::function<void(int64_t, int)>* body_ = nullptr;
  int64_t count_ = 0;
  std::atomic<int64_t> next_{0};
  int active_ = 0;                       // number of helpers that may work on the current job
  std::atomic<int> inside_{0};           // number of helpers that are working on it now
  std::atomic<uint64_t> generation_{0};  // number of jobs so far
};

// The pool is never destroyed, because its threads wait in it until the process ends. A forked child has none of these
// threads, and gets a new pool.
Pool* pool = nullptr;
std::once_flag once;

Pool& the_pool() {
  std::call_once(once, [] {
    pool = new Pool;
    pthread_atfork(nullptr, nullptr, [] {
      const int wanted = pool->wanted;
      pool = new Pool;
      pool->wanted = wanted;
    });
  });
  return *pool;
}

}  // namespace

int pool_threads() {
  static const int cores = usable_cores();
  const int wanted = the_pool().wanted;
  return wanted ? wanted : cores;
}

void set_pool_threads(int threads) { the_pool().wanted = threads; }

void parallel_for(int64_t count, int threads, const std::function<void(int64_t, int)>& body) {
  if (count <= 0) return;
  if (inside_body) {  // called from within a body: this thread computes all items itself
    for (int64_t i = 0; i < count; ++i) body(i, 0);
    return;
  }
  the_pool().run(count, body, threads);
}

}  // namespace fops
