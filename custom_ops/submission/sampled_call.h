// Finds where a kernel spends its time: at regular intervals of processor time, it records the address at which a thread is.
// It also counts how often OpenMP begins a parallel region, and measures this machine's peak: the rate of multiply-adds in
// registers on all cores.
#pragma once

#include <dlfcn.h>
#include <execinfo.h>
#include <link.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <thread>
#include <vector>

extern char __executable_start, etext;

namespace fops_samples {
constexpr int kMost = 1 << 14, kInterval = 1000;  // most samples kept; microseconds of processor time between two
struct Sample {
  const char* at;     // address in this program at which the thread was, or from which it had called a library
  const char* outer;  // address in a library at which the thread was; null if it was in this program
  long thread;        // the thread's id
};
inline Sample all[kMost];
inline std::atomic<int> count{0};
inline std::atomic<long long> regions{0};  // number of parallel regions
inline std::chrono::steady_clock::time_point began;
// In seconds: the time of the fastest call; the processor time of all calls; and that of the process before a call.
inline double fastest = 0, processor = 0, before = 0;

// Whether an address is in this program and not in a library.
inline bool own(const char* address) { return address >= &__executable_start && address < &etext; }

// Returns the processor time of this process in seconds.
inline double used() {
  rusage now;
  getrusage(RUSAGE_SELF, &now);
  return now.ru_utime.tv_sec + now.ru_stime.tv_sec + 1e-6 * (now.ru_utime.tv_usec + now.ru_stime.tv_usec);
}

// The handler of the timer's signal: takes a sample.
inline void take(int, siginfo_t*, void* context) {
  const char* at = nullptr;
#if defined(__x86_64__)
  at = reinterpret_cast<const char*>(static_cast<ucontext_t*>(context)->uc_mcontext.gregs[REG_RIP]);
#elif defined(__aarch64__)
  at = reinterpret_cast<const char*>(static_cast<ucontext_t*>(context)->uc_mcontext.pc);
#endif
  const int saved = errno, slot = count++;
  if (slot < kMost) {
    Sample& sample = all[slot] = {at, nullptr, syscall(SYS_gettid)};
    if (!own(at)) {
      sample = {nullptr, at, sample.thread};
      void* frames[24];
      const int deep = backtrace(frames, 24);
      for (int i = 3; i < deep && !sample.at; ++i)
        if (own(static_cast<char*>(frames[i]))) sample.at = static_cast<char*>(frames[i]) - 1;
    }
  }
  errno = saved;
}

// Starts the timer, or stops it if `microseconds` is 0.
inline void clock(int microseconds) {
  const itimerval every = {{0, microseconds}, {0, microseconds}};
  setitimer(ITIMER_PROF, &every, nullptr);
}

inline void begin() {
  void* frame[1];
  backtrace(frame, 1);  // called here, because the first call loads a library, which a signal's handler must not do
  struct sigaction action = {};
  action.sa_sigaction = take, action.sa_flags = SA_SIGINFO | SA_RESTART;
  sigaction(SIGPROF, &action, nullptr);
  before = used(), began = std::chrono::steady_clock::now();
  clock(kInterval);
}

inline void end() {
  clock(0);
  const double took = std::chrono::duration<double>(std::chrono::steady_clock::now() - began).count();
  fastest = fastest > 0 ? std::min(fastest, took) : took;
  processor += used() - before;
}

// Returns the highest rate of this thread, in operations per second, within `lasting` seconds.
inline double multiply_adds(double lasting) {
  typedef float Row __attribute__((vector_size(64)));
  constexpr int kSums = 12,
                kRounds = 4096;  // more independent sums than a multiply-add takes cycles; rounds per reading
  Row sums[kSums] = {}, a = {}, b = {};
  for (int i = 0; i < 16; ++i) a[i] = 0.999f, b[i] = 1e-3f;
  double best = 0;
  const auto first = std::chrono::steady_clock::now();
  for (double now = 0, last = 0; now < lasting; last = now) {
    for (int round = 0; round < kRounds; ++round)
#pragma GCC unroll 12
      for (int i = 0; i < kSums; ++i) sums[i] = sums[i] * a + b;
    for (int i = 0; i < kSums; ++i) __asm__ volatile("" : "+m"(sums[i]));
    now = std::chrono::duration<double>(std::chrono::steady_clock::now() - first).count();
    best = std::max(best, 2.0 * 16 * kSums * kRounds / (now - last));
  }
  return best;
}

// Returns the peak in operations per second, of all cores together.
inline double peak() {
  cpu_set_t mine;
  const int cores = sched_getaffinity(0, sizeof(mine), &mine) ? 1 : CPU_COUNT(&mine);
  std::vector<double> each(cores);
  std::vector<std::thread> threads;
  for (double& one : each) threads.emplace_back([&one] { one = multiply_adds(0.05); });
  for (std::thread& one : threads) one.join();
  double sum = 0;
  for (double one : each) sum += one;
  return sum;
}

// Writes the address to which this program was loaded to *result.
inline int base(dl_phdr_info* info, size_t, void* result) {
  *static_cast<size_t*>(result) = info->dlpi_addr;
  return 1;  // stops after the first object, which is this program
}

inline void print() {
  size_t loaded = 0;
  dl_iterate_phdr(base, &loaded);
  printf("measured %.9g %.9g %lld %.6g\n", fastest, processor, regions.load(), peak());
  for (int i = 0; i < std::min(count.load(), kMost); ++i) {
    Dl_info where = {};
    if (all[i].outer) dladdr(all[i].outer, &where);
    const char *file = where.dli_fname ? where.dli_fname : "-", *name = where.dli_sname ? where.dli_sname : "-";
    printf("sample %ld %zx %s %s\n", all[i].thread, all[i].at ? reinterpret_cast<size_t>(all[i].at) - loaded : 0,
           all[i].outer ? file : "-", all[i].outer ? name : "-");
  }
}
}  // namespace fops_samples

extern "C" {
void __real_GOMP_parallel(void (*)(void*), void*, unsigned, unsigned) __attribute__((weak));
void __wrap_GOMP_parallel(void (*body)(void*), void* data, unsigned threads, unsigned flags) {
  ++fops_samples::regions;
  __real_GOMP_parallel(body, data, threads, flags);
}
}
