// A program that calls the plug-in of a kernel file for the CPU, and finds where the time is spent. It is compiled together
// with the file, by the file's own options.
//
//   sampled_call IMAGES CHANNELS SIDE FILTERS TAPS CALLS [trap|poison]
//
// SIDE is the images' height and width, TAPS the filters' height and width. The program makes CALLS calls on the same
// inputs, but no further call after one second of processor time. At regular intervals of processor time, it records the
// address at which a thread is. It also counts how often OpenMP begins a parallel region. Afterwards it measures what
// remedies bring on the same sizes (`remedies`), and this machine's peak: the rate of multiply-adds in registers.
//
// With "trap", the first operation without a valid result, such as 0 / 0, ends the program, which prints its address.
// With "poison", the output and all memory from malloc and new hold signalling NaNs as well, which no operation accepts.
#include <dlfcn.h>
#include <execinfo.h>
#include <fenv.h>
#include <link.h>
#include <math.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <new>
#include <numeric>
#include <thread>
#include <vector>

#include "fashion_ops_plugin.h"

extern char __executable_start, etext;
extern "C" const fops_kernel_plugin* fops_kernel_plugin_main(void);

namespace {
constexpr int kMost = 1 << 14, kInterval = 1000;  // most samples kept; microseconds of processor time between two
struct Sample {
  const char* at;     // address in this program at which the thread was, or from which it had called a library
  const char* outer;  // address in a library at which the thread was; null if it was in this program
  long thread;        // the thread's id
};
Sample all[kMost];
std::atomic<int> count{0};
std::atomic<long long> regions{0}, parts{0};  // number of parallel regions, and of parts of dynamically scheduled loops
thread_local long long own_parts = 0;  // those that are not in `parts` yet: to add each at once would make threads wait
// In seconds: the time of the fastest call; the times of all calls; the processor time of all their threads, together and
// in one call at least; the time in which the calling thread slept; what the clocks showed before a call.
double fastest = 0, all_calls = 0, processor = 0, least = INFINITY, asleep = 0, before = 0, ran_before = 0, began = 0;

bool own(const char* address) { return address >= &__executable_start && address < &etext; }

double seconds_of(clockid_t clock) {
  timespec now;
  clock_gettime(clock, &now);
  return now.tv_sec + 1e-9 * now.tv_nsec;
}

// Returns the seconds that this thread has run or was ready to run; 0 if the system does not tell.
double ran() {
  double running = 0, ready = 0;
  if (FILE* from = fopen("/proc/thread-self/schedstat", "r")) {
    if (fscanf(from, "%lf %lf", &running, &ready) != 2) running = ready = 0;
    fclose(from);
  }
  return 1e-9 * (running + ready);
}

void take(int, siginfo_t*, void* context) {
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

// Starts the timer, or stops it if `microseconds` is 0. The first interval is `first` microseconds.
void clock(int microseconds, int first) {
  const itimerval every = {{0, microseconds}, {0, first}};
  setitimer(ITIMER_PROF, &every, nullptr);
}

void begin() {
  void* frame[1];
  backtrace(frame, 1);  // called here, because the first call loads a library, which a signal's handler must not do
  struct sigaction action = {};
  action.sa_sigaction = take, action.sa_flags = SA_SIGINFO | SA_RESTART;
  sigaction(SIGPROF, &action, nullptr);
  before = seconds_of(CLOCK_PROCESS_CPUTIME_ID), ran_before = ran(), began = seconds_of(CLOCK_MONOTONIC);
  static int calls = 0;
  clock(kInterval, 1 + ++calls * 617 % kInterval);  // with equal intervals, the beginning would have no samples
}

void end() {
  clock(0, 0);
  const double took = seconds_of(CLOCK_MONOTONIC) - began;
  fastest = fastest > 0 ? std::min(fastest, took) : took;
  const double worked = seconds_of(CLOCK_PROCESS_CPUTIME_ID) - before;
  processor += worked, least = std::min(least, worked), all_calls += took;
  if (ran_before > 0) asleep += std::max(0.0, took - (ran() - ran_before));
}

// Returns the highest rate of this thread, in operations per second, within `lasting` seconds.
double multiply_adds(double lasting) {
  typedef float Row __attribute__((vector_size(64)));
  constexpr int kSums = 12, kRounds = 4096;  // more independent sums than a multiply-add takes cycles
  Row sums[kSums] = {}, a = {}, b = {};
  for (int i = 0; i < 16; ++i) a[i] = 0.999f, b[i] = 1e-3f;
  double best = 0;
  const double first = seconds_of(CLOCK_MONOTONIC);
  for (double now = 0, last = 0; now < lasting; last = now) {
    for (int round = 0; round < kRounds; ++round)
#pragma GCC unroll 12
      for (int i = 0; i < kSums; ++i) sums[i] = sums[i] * a + b;
    for (int i = 0; i < kSums; ++i) __asm__ volatile("" : "+m"(sums[i]));
    now = seconds_of(CLOCK_MONOTONIC) - first;
    best = std::max(best, 2.0 * 16 * kSums * kRounds / (now - last));
  }
  return best;
}

// Returns the peak in operations per second, of all cores together.
double peak() {
  cpu_set_t mine;
  const int cores = sched_getaffinity(0, sizeof(mine), &mine) ? 1 : CPU_COUNT(&mine);
  std::vector<double> each(cores);
  std::vector<std::thread> threads;
  for (double& one : each) threads.emplace_back([&one] { one = multiply_adds(0.05); });
  for (std::thread& one : threads) one.join();
  return std::accumulate(each.begin(), each.end(), 0.0);
}

// Returns the address to which this program was loaded.
size_t loaded() {
  const auto read = [](dl_phdr_info* info, size_t, void* result) {
    *static_cast<size_t*>(result) = info->dlpi_addr;
    return 1;  // stops after the first object, which is this program
  };
  size_t at = 0;
  dl_iterate_phdr(read, &at);
  return at;
}

void print() {
  const size_t first = loaded();
  printf("measured %.9g %.9g %lld %.6g %.6g %lld\n", fastest, least, regions.load(), peak(), asleep / all_calls,
         parts.load());
  for (int i = 0; i < std::min(count.load(), kMost); ++i) {
    Dl_info where = {};
    if (all[i].outer) dladdr(all[i].outer, &where);
    const char *file = where.dli_fname ? where.dli_fname : "-", *name = where.dli_sname ? where.dli_sname : "-";
    printf("sample %ld %zx %s %s\n", all[i].thread, all[i].at ? reinterpret_cast<size_t>(all[i].at) - first : 0,
           all[i].outer ? file : "-", all[i].outer ? name : "-");
  }
}

// ---- what remedies bring: the same convolution in other forms, compiled by the same options

struct Call {
  int B, C, S, M, K;
  const float *x, *k;
  float* y;
};

// Computes an image: one output at once, whose sum is in a register.
void by_sum(const Call& n, int b) {
  const int O = n.S - n.K + 1;
  for (int m = 0; m < n.M; ++m)
    for (int h = 0; h < O; ++h)
      for (int w = 0; w < O; ++w) {
        float sum = 0;
        for (int c = 0; c < n.C; ++c)
          for (int p = 0; p < n.K; ++p)
            for (int q = 0; q < n.K; ++q)
              sum +=
                  n.x[((size_t)(b * n.C + c) * n.S + h + p) * n.S + w + q] * n.k[((m * n.C + c) * n.K + p) * n.K + q];
        n.y[((size_t)(b * n.M + m) * O + h) * O + w] = sum;
      }
}

// Computes an image: one weight times a row of pixels, added to a row of outputs in memory.
void by_row(const Call& n, int b) {
  const int O = n.S - n.K + 1;
  for (int m = 0; m < n.M; ++m)
    for (int h = 0; h < O; ++h) {
      float* __restrict__ row = n.y + ((size_t)(b * n.M + m) * O + h) * O;
      for (int w = 0; w < O; ++w) row[w] = 0;
      for (int c = 0; c < n.C; ++c)
        for (int p = 0; p < n.K; ++p)
          for (int q = 0; q < n.K; ++q) {
            const float* __restrict__ from = n.x + ((size_t)(b * n.C + c) * n.S + h + p) * n.S + q;
            const float weight = n.k[((m * n.C + c) * n.K + p) * n.K + q];
            for (int w = 0; w < O; ++w) row[w] += weight * from[w];
          }
    }
}

constexpr int kFilters = 5, kColumns = 8;
typedef float Row __attribute__((vector_size(4 * kColumns)));

template <int f>
void tile(const Call& n, const float* in, const float* weight, float* out, int columns) {
  const int O = n.S - n.K + 1;
  Row sums[f] = {};
  for (int c = 0; c < n.C; ++c)
    for (int p = 0; p < n.K; ++p)
      for (int q = 0; q < n.K; ++q) {
        Row pixels = {};
        memcpy(&pixels, &in[(c * n.S + p) * n.S + q], 4 * columns);
        for (int i = 0; i < f; ++i) sums[i] += weight[((i * n.C + c) * n.K + p) * n.K + q] * pixels;
      }
  for (int i = 0; i < f; ++i) memcpy(&out[(size_t)i * O * O], &sums[i], 4 * columns);
}

// Computes an image: the sums of a tile of filters and columns are in registers.
void by_tile(const Call& n, int b) {
  const int O = n.S - n.K + 1;
  for (int m = 0; m < n.M; m += kFilters)
    for (int h = 0; h < O; ++h)
      for (int w = 0; w < O; w += kColumns) {
        const int left = std::max(0, std::min(w, O - kColumns));
        const float* in = &n.x[((size_t)b * n.C * n.S + h) * n.S + left];
        const float* weight = &n.k[(size_t)m * n.C * n.K * n.K];
        float* out = &n.y[(((size_t)b * n.M + m) * O + h) * O + left];
        if (n.M - m >= kFilters && O >= kColumns)
          tile<kFilters>(n, in, weight, out, kColumns);
        else
          for (int i = 0; i < std::min(kFilters, n.M - m); ++i)
            tile<1>(n, in, weight + (size_t)i * n.C * n.K * n.K, out + (size_t)i * O * O, std::min(kColumns, O));
      }
}

constexpr int kForms = 3, kRounds = 9;
constexpr double kComparing = 1.5;  // processor time in seconds after which no further round begins
constexpr struct {
  const char* name;
  void (*image)(const Call&, int);
} forms[kForms] = {{"tile", by_tile}, {"row", by_row}, {"sum", by_sum}};

// Returns the processor time of a form on some threads. Waiting threads do not count.
double busy_time(const Call& call, void (*image)(const Call&, int), int threads) {
  double busy = 0;
#pragma omp parallel num_threads(threads) reduction(+ : busy)
  {
    const double start = seconds_of(CLOCK_THREAD_CPUTIME_ID);
#pragma omp for nowait
    for (int b = 0; b < call.B; ++b) image(call, b);
    busy += seconds_of(CLOCK_THREAD_CPUTIME_ID) - start;
  }
  return busy;
}

// Prints the processor time per image of each form, on one thread and on all. The file and the forms take turns, because
// the machine may be busier than in the file's calls before: a form's time is the median of its ratio to the file's time
// in the same round, multiplied by `least`, the file's time per image.
template <class File>
void remedies(const Call& call, double least, File file) {
  cpu_set_t mine;
  const int cores = sched_getaffinity(0, sizeof(mine), &mine) ? 1 : CPU_COUNT(&mine);
  std::vector<double> ratios[kForms][2];
  for (double spent = 0; ratios[0][0].size() < kRounds && spent < kComparing;) {
    const double before = seconds_of(CLOCK_PROCESS_CPUTIME_ID);
    file();
    const double own = std::max(1e-9, seconds_of(CLOCK_PROCESS_CPUTIME_ID) - before);
    for (int form = 0; form < kForms; ++form)
      for (int all = 0; all < 2; ++all)
        ratios[form][all].push_back(busy_time(call, forms[form].image, all ? cores : 1) / own);
    spent += seconds_of(CLOCK_PROCESS_CPUTIME_ID) - before;
  }
  for (int form = 0; form < kForms; ++form) {
    for (auto& each : ratios[form]) std::nth_element(each.begin(), each.begin() + each.size() / 2, each.end());
    const size_t middle = ratios[form][0].size() / 2;
    printf("remedy %s %.9g %.9g\n", forms[form].name, least * ratios[form][0][middle], least * ratios[form][1][middle]);
  }
}

bool poisoning = false;
constexpr uint32_t kSignalling = 0x7fa00000;

void fill(void* memory, size_t bytes) {
  for (size_t i = 0; i < bytes / 4; ++i) memcpy(static_cast<char*>(memory) + 4 * i, &kSignalling, 4);
}

void trapped(int, siginfo_t* about, void*) {
  const char* at = static_cast<char*>(about->si_addr);
  void* frames[24];
  const int deep = own(at) ? 0 : backtrace(frames, 24);
  for (int i = 2; i < deep && !own(at); ++i)
    if (own(static_cast<char*>(frames[i]))) at = static_cast<char*>(frames[i]) - 1;
  printf("trapped %d %zx\n", about->si_code == FPE_FLTINV, reinterpret_cast<size_t>(at) - loaded());
  fflush(stdout);
  _exit(0);
}

void trap(bool poisoned) {
  void* frame[1];
  backtrace(frame, 1);
  struct sigaction action = {};
  action.sa_sigaction = trapped, action.sa_flags = SA_SIGINFO;
  sigaction(SIGFPE, &action, nullptr);
  poisoning = poisoned;
  feenableexcept(FE_INVALID);
}
}  // namespace

extern "C" {
void __real_GOMP_parallel(void (*)(void*), void*, unsigned, unsigned) __attribute__((weak));
void __wrap_GOMP_parallel(void (*function)(void*), void* data, unsigned threads, unsigned flags) {
  ++regions;
  __real_GOMP_parallel(function, data, threads, flags);
}
#define PARTS(next, type)                                 \
  bool __real_##next(type*, type*) __attribute__((weak)); \
  bool __wrap_##next(type* from, type* to) {              \
    ++own_parts;                                          \
    if (__real_##next(from, to)) return true;             \
    parts += own_parts, own_parts = 0;                    \
    return false;                                         \
  }
PARTS(GOMP_loop_dynamic_next, long)
PARTS(GOMP_loop_nonmonotonic_dynamic_next, long)
PARTS(GOMP_loop_ull_dynamic_next, unsigned long long)
PARTS(GOMP_loop_ull_nonmonotonic_dynamic_next, unsigned long long)
void* __real_malloc(size_t);
void* __wrap_malloc(size_t bytes) {
  void* made = __real_malloc(bytes);
  if (poisoning && made) fill(made, bytes);
  return made;
}
int __real_posix_memalign(void**, size_t, size_t);
int __wrap_posix_memalign(void** made, size_t align, size_t bytes) {
  const int status = __real_posix_memalign(made, align, bytes);
  if (poisoning && !status) fill(*made, bytes);
  return status;
}
void* __real_aligned_alloc(size_t, size_t);
void* __wrap_aligned_alloc(size_t align, size_t bytes) {
  void* made = __real_aligned_alloc(align, bytes);
  if (poisoning && made) fill(made, bytes);
  return made;
}
}

// The library's other forms of new and delete call these two.
void* operator new(size_t bytes) {
  void* made = __wrap_malloc(bytes ? bytes : 1);
  if (!made) throw std::bad_alloc();
  return made;
}
void operator delete(void* made) noexcept { free(made); }

int main(int words, char** word) {
  if (words < 7) return 2;
  int numbers[6];
  for (int i = 0; i < 6; ++i) numbers[i] = atoi(word[i + 1]);
  const int B = numbers[0], C = numbers[1], S = numbers[2], M = numbers[3], K = numbers[4], O = S - K + 1;
  const size_t images = B, outputs = images * M * O * O;
  const fops_kernel_plugin* plugin = fops_kernel_plugin_main();
  std::vector<float> x(images * C * S * S), k(size_t{1} * M * C * K * K), y(outputs);
  for (size_t i = 0; i < x.size(); ++i) x[i] = static_cast<float>(i * 7919 % 256);
  for (size_t i = 0; i < k.size(); ++i) k[i] = static_cast<float>(i * 104729 % 201) / 100 - 1;
  const auto run = [&](int count) {
    fops_plugin_call one = {};
    one.conv = {count, C, S, S, M, K, FOPS_FLOAT32};
    one.x = x.data(), one.k = k.data(), one.y = y.data();
    return plugin->run(&one);
  };
  const bool traps = words > 7, poisoned = traps && !strcmp(word[7], "poison");
  for (int call = 0; call < numbers[5]; ++call) {
    std::fill(y.begin(), y.end(), plugin->zero_output ? 0.0f : NAN);
    if (traps) {
      if (poisoned && !plugin->zero_output) fill(y.data(), 4 * outputs);
      trap(poisoned);
    } else {
      begin();
    }
    const int status = run(B);
    fedisableexcept(FE_INVALID), poisoning = false;
    if (!traps) end();
    if (processor > 1) numbers[5] = call + 1;
    printf("call %d: status %d\n", call, status);
  }
  if (traps) return 0;
  print();
  fflush(stdout);
  const int few = static_cast<int>(std::min<unsigned>(B, 4 * std::max(1u, std::thread::hardware_concurrency())));
  remedies({few, C, S, M, K, x.data(), k.data(), y.data()}, least / B, [&] { run(few); });
  return 0;
}
