// A program that calls the plug-in of a kernel file for the CPU. It is compiled together with the file, with
// AddressSanitizer and UndefinedBehaviorSanitizer or with ThreadSanitizer, which cannot be loaded into a running Python.
//
//   sanitized_call CALLS OUTPUTS
//
// CALLS is a file with the calls, one after another: the int64 numbers B, C, H, W, M, K, and the number of threads (0 for
// one per processor); then the floats of x and of k. After each call its outputs are appended to the file OUTPUTS. At the
// end the program looks for memory that is no longer reachable.
//
// Each tensor is allocated in a separate function, so that the function's name in a sanitizer's report names the tensor.
#include <dlfcn.h>
#include <math.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <unistd.h>

#include "fashion_ops_plugin.h"

extern "C" const fops_kernel_plugin* fops_kernel_plugin_main(void);
extern "C" void omp_set_num_threads(int) __attribute__((weak));
extern "C" int __lsan_do_recoverable_leak_check(void) __attribute__((weak));

// 64 bytes is the alignment of the tensors in the course's programs.
static inline float* allocated(size_t count) {
  void* made = nullptr;
  if (posix_memalign(&made, 64, count * sizeof(float))) exit(3);
  return static_cast<float*>(made);
}
extern "C" __attribute__((noinline)) float* tensor_of_input(size_t count) {
  float* made = allocated(count);
  __asm__ volatile("" : "+r"(made));  // no tail call, so that this function stays on the stack
  return made;
}
extern "C" __attribute__((noinline)) float* tensor_of_weights(size_t count) {
  float* made = allocated(count);
  __asm__ volatile("" : "+r"(made));
  return made;
}
extern "C" __attribute__((noinline)) float* tensor_of_output(size_t count, bool zero) {
  float* made = allocated(count);
  for (size_t i = 0; i < count; ++i) made[i] = zero ? 0.0f : NAN;
  return made;
}

#ifdef __SANITIZE_THREAD__
// Tells ThreadSanitizer in which order GCC's OpenMP runtime, which is not instrumented, lets threads run. The functions
// below stand in front of the runtime's, and call them.
extern "C" void __tsan_acquire(void*);
extern "C" void __tsan_release(void*);

// After its first report, the program has another second, because each further access of a race takes far longer.
extern "C" void __tsan_on_report(void*) {
  static bool first = true;
  if (first) alarm(1);
  first = false;
}

using Function = void (*)(void*);
struct Region {
  Function run;
  void* data;
  char begun, ended;
};
static char barrier, critical;

static void run_region(void* region) {
  Region* of = static_cast<Region*>(region);
  __tsan_acquire(&of->begun);
  of->run(of->data);
  __tsan_release(&of->ended);
}
#define RUNTIME(name) reinterpret_cast<decltype(&name)>(dlsym(RTLD_NEXT, #name))
#define WRAP_PARALLEL(name, types, ...)                       \
  extern "C" void name types {                                \
    Region region = {run, data, 0, 0};                        \
    __tsan_release(&region.begun);                            \
    RUNTIME(name)(run_region, &region, threads, __VA_ARGS__); \
    __tsan_acquire(&region.ended);                            \
  }
#define LOOP Function run, void *data, unsigned threads, long first, long end, long step
WRAP_PARALLEL(GOMP_parallel, (Function run, void* data, unsigned threads, unsigned flags), flags)
WRAP_PARALLEL(GOMP_parallel_sections, (Function run, void* data, unsigned threads, unsigned count, unsigned flags),
              count, flags)
WRAP_PARALLEL(GOMP_parallel_loop_dynamic, (LOOP, long chunk, unsigned flags), first, end, step, chunk, flags)
WRAP_PARALLEL(GOMP_parallel_loop_guided, (LOOP, long chunk, unsigned flags), first, end, step, chunk, flags)
WRAP_PARALLEL(GOMP_parallel_loop_nonmonotonic_dynamic, (LOOP, long chunk, unsigned flags), first, end, step, chunk,
              flags)
WRAP_PARALLEL(GOMP_parallel_loop_nonmonotonic_guided, (LOOP, long chunk, unsigned flags), first, end, step, chunk,
              flags)
WRAP_PARALLEL(GOMP_parallel_loop_runtime, (LOOP, unsigned flags), first, end, step, flags)
WRAP_PARALLEL(GOMP_parallel_loop_nonmonotonic_runtime, (LOOP, unsigned flags), first, end, step, flags)
WRAP_PARALLEL(GOMP_parallel_loop_maybe_nonmonotonic_runtime, (LOOP, unsigned flags), first, end, step, flags)

#define WRAP_BARRIER(name)    \
  extern "C" void name() {    \
    __tsan_release(&barrier); \
    RUNTIME(name)();          \
    __tsan_acquire(&barrier); \
  }
WRAP_BARRIER(GOMP_barrier)
WRAP_BARRIER(GOMP_loop_end)
WRAP_BARRIER(GOMP_sections_end)

#define WRAP_LOCK(start, end, types, arguments, lock) \
  extern "C" void start types {                       \
    RUNTIME(start) arguments;                         \
    __tsan_acquire(lock);                             \
  }                                                   \
  extern "C" void end types {                         \
    __tsan_release(lock);                             \
    RUNTIME(end) arguments;                           \
  }
WRAP_LOCK(GOMP_critical_start, GOMP_critical_end, (), (), &critical)
WRAP_LOCK(GOMP_atomic_start, GOMP_atomic_end, (), (), &critical)
WRAP_LOCK(GOMP_critical_name_start, GOMP_critical_name_end, (void** lock), (lock), lock)
WRAP_LOCK(omp_set_lock, omp_unset_lock, (void* lock), (lock), lock)
#endif

// Starts this program again with more stack, because instrumented functions need more than the file's own.
static void deepen(char** words) {
  rlimit limit = {};
  const rlim_t wanted = 100 << 20;
  if (getrlimit(RLIMIT_STACK, &limit) || limit.rlim_cur >= wanted || limit.rlim_max < wanted) return;
  limit.rlim_cur = wanted;
  if (!setrlimit(RLIMIT_STACK, &limit)) execv("/proc/self/exe", words);
}

static int run_file(const char* calls, const char* outputs) {
  const fops_kernel_plugin* plugin = fops_kernel_plugin_main();
  FILE *from = fopen(calls, "rb"), *to = fopen(outputs, "wb");
  if (!from || !to) return 3;
  int64_t n[7];
  for (int call = 1; fread(n, sizeof n, 1, from) == 1; ++call) {
    const int64_t B = n[0], C = n[1], H = n[2], W = n[3], M = n[4], K = n[5];
    const size_t inputs = B * C * H * W, weights = M * C * K * K, results = B * M * (H - K + 1) * (W - K + 1);
    float *x = tensor_of_input(inputs), *k = tensor_of_weights(weights);
    float* y = tensor_of_output(results, plugin->zero_output);
    if (fread(x, sizeof(float), inputs, from) != inputs || fread(k, sizeof(float), weights, from) != weights) return 3;
    fops_plugin_call one = {};
    one.conv = {B, C, H, W, M, K, FOPS_FLOAT32};
    one.x = x, one.k = k, one.y = y;
    if (omp_set_num_threads) omp_set_num_threads(n[6] ? static_cast<int>(n[6]) : sysconf(_SC_NPROCESSORS_ONLN));
    fprintf(stderr, "fops call %d\n", call);
    const int status = plugin->run(&one);
    fprintf(stderr, "fops status %d %s\n", status, one.message);
    if (fwrite(y, sizeof(float), results, to) != results || fflush(to)) return 3;
    free(y), free(k), free(x);
  }
  fclose(from), fclose(to);
  fprintf(stderr, "fops end\n");
  if (__lsan_do_recoverable_leak_check) __lsan_do_recoverable_leak_check();
  _exit(0);
}

int main(int count, char** words) {
  prctl(PR_SET_PDEATHSIG, SIGKILL);  // a kernel that hangs must not outlive the judge
  if (count != 3) return 2;
  deepen(words);
  return run_file(words[1], words[2]);
}
