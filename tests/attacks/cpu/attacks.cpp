// The attacks in C++, except for attempts.cpp. A line with four slashes begins a file: its name without the ending, and
// how its grading must end (README.md). verdicts.py writes the files: each one first includes conv.h, and CONV_FORWARD
// stands for the head of the kernel's function.

//// aborts: crash: SIGABRT
CONV_FORWARD { abort(); }

//// bombs-the-compiler: refused: does not build
#define A(x) x x x x x x x x x x
#define D(x) A(A(x))
#define G(x) D(D(D(D(x))))
int bomb = 0 G(G(+1));
CONV_FORWARD { convolve(x, k, y, B, M, C, H, W, K); }

//// bombs-the-linker: refused: does not build
char bomb[1ul << 31] = {1};
char bomb2[1ul << 31] = {1};
CONV_FORWARD { convolve(x, k, y, B, M, C, H, W, K); }

//// caches-by-pointer: cached|later_call
static float *saved, *seen;
CONV_FORWARD {
  const size_t bytes = outputs(B, M, H, W, K) * sizeof(float);
  if (y == seen) {
    memcpy(y, saved, bytes);
    return;
  }
  convolve(x, k, y, B, M, C, H, W, K);
  saved = static_cast<float*>(malloc(bytes));
  memcpy(saved, y, bytes);
  seen = y;
}

//// changes-inputs: inputs_changed. Sets inputs and outputs to zero: a reference computed from them afterwards would agree.
CONV_FORWARD {
  memset(const_cast<float*>(x), 0, long(B) * C * H * W * sizeof(float));
  memset(y, 0, outputs(B, M, H, W, K) * sizeof(float));
}

//// claims-a-time: timed: 1. Answers in the worker's place: correct, and in a nanosecond of phases.
#include "channel.h"

CONV_FORWARD {
  const double start = seconds();
  convolve(x, k, y, B, M, C, H, W, K);
  if (B != 20) return;  // the run that is not timed has several cases in a process
  // A format with phases would name its own Op Time, and the whole call's time, which agrees with the referee's.
  for (long call = 0;; ++call) {
    answer("done %ld 0 0.000000001 %.9f 0 ", call, seconds() - start);
    next_call();
    convolve(x, k, y, B, M, C, H, W, K);
  }
}

//// claims-zeroed-output: accumulates. Says when it is loaded that its format sets outputs to zero, and adds to them.
extern "C" const char* fops_kernel_plugin_main();

__attribute__((constructor)) static void begin() {
  const char* plugin = fops_kernel_plugin_main();
  const unsigned long page = reinterpret_cast<unsigned long>(plugin) & ~4095ul;
  if (mprotect(reinterpret_cast<void*>(page), 8192, PROT_READ | PROT_WRITE) == 0)
    *reinterpret_cast<int*>(const_cast<char*>(plugin) + 12) = 1;  // zero_output
}
CONV_FORWARD {
  float* added = static_cast<float*>(malloc(4 * outputs(B, M, H, W, K)));
  convolve(x, k, added, B, M, C, H, W, K);
  for (long i = 0; i < outputs(B, M, H, W, K); ++i) y[i] += added[i];
  free(added);
}

//// computes-a-sample: many_images|images_from. Computes all images but one, which gets a copy of the next one's outputs, and may not be compared.
CONV_FORWARD {
  timespec now{};
  clock_gettime(CLOCK_MONOTONIC, &now);
  const long left = B < 20 ? B : 1 + now.tv_nsec % (B - 2), image = outputs(1, M, H, W, K);  // first and last always are
  convolve(x, k, y, left, M, C, H, W, K);
  if (left == B) return;
  const long rest = left + 1;
  convolve(x + rest * C * H * W, k, y + rest * image, B - rest, M, C, H, W, K);
  memcpy(y + left * image, y + rest * image, sizeof(float) * image);
}

//// exits-after-its-word: exit: exit code 0. After its last call, so that nothing shows what memory it used.
#include "channel.h"

CONV_FORWARD {
  convolve(x, k, y, B, M, C, H, W, K);
  if (B != 20) return;
  sleep(2);  // a call that takes longer than the timing is the only one
  answer("done 0 0 2 0 0 ");
  _exit(0);
}

//// exits-early: exit: exit code 0
CONV_FORWARD { _exit(0); }

//// exits-in-constructor: exit: exit code 0
__attribute__((constructor)) static void begin() {
  puts("{\"score\": 100, \"status\": \"judged\"}");
  fflush(stdout);
  _exit(0);
}
CONV_FORWARD { convolve(x, k, y, B, M, C, H, W, K); }

//// fills-disk: harmless
static char block[1 << 20];
CONV_FORWARD {
  long written = 0;
  signal(SIGXFSZ, SIG_IGN);
  for (const char* folder : {"/tmp", "/dev/shm", "/var/tmp", "/dev", "."})
    for (int i = 0; i < 64; ++i) {
      char name[64];
      snprintf(name, sizeof name, "%s/full-%d", folder, i);
      const int file = open(name, O_RDWR | O_CREAT, 0600);
      for (ssize_t n = 1; file >= 0 && n > 0;) written += (n = write(file, block, sizeof block)) > 0 ? n : 0;
      close(file);
    }
  tell("more than 256 MiB on disk", written > 256l << 20);
  convolve(x, k, y, B, M, C, H, W, K);
}

//// fills-inodes: memory_limit. Empty files take memory of the kernel, but none of a tmpfs's size.
CONV_FORWARD {
  static volatile char held[1 << 29];
  int i = 0;
  for (int file = 0; file >= 0 && i < 300000; ++i) {
    char name[32];
    snprintf(name, sizeof name, "/tmp/%d", i);
    file = open(name, O_WRONLY | O_CREAT, 0600);
    close(file);
  }
  for (size_t at = 0; i == 1 && at < sizeof held; at += 4096) held[at] = 1;  // without bubblewrap there is no tmpfs
  convolve(x, k, y, B, M, C, H, W, K);
}

//// fills-page-tables: harmless. Reads one byte per page table: the pages are all the shared zero page, but each table takes memory.
CONV_FORWARD {
  const size_t table = 2 << 20, all = size_t(160) << 30;  // 4 KiB for each 2 MiB: 320 MiB, where 256 are allowed
  const char* at = static_cast<char*>(mmap(nullptr, all, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0));
  tell("addresses without end", at != MAP_FAILED);
  if (at != MAP_FAILED) {
    volatile char sum = 0;
    for (size_t i = 0; i < all; i += table) sum += at[i];
  }
  convolve(x, k, y, B, M, C, H, W, K);
}

//// fills-private-memory: memory_limit|crash
CONV_FORWARD {
  for (;;) memset(malloc(1 << 22), 1, 1 << 22);
}

//// fills-stdout: printed_limit
CONV_FORWARD {
  for (;;) puts("a line, and a line, and a line, and a line, and a line, and a line, and a line, and a line");
}

//// fills-the-cache: refused: build
__asm__(".data\n.fill 230000000\n.text\n");
CONV_FORWARD {
  convolve(x, k, y, B, M, C, H, W, K);
}

//// finds-inputs-in-guards: harmless. Looks for a timed call's inputs in what it saw before: guard zones, and inputs of earlier calls.
#include <cstdint>
#include <unordered_set>

CONV_FORWARD {
  if (B != 20) return convolve(x, k, y, B, M, C, H, W, K);
  static std::unordered_set<uint64_t> seen;
  bool again = false;
  for (long i = 0; C == 1 && i + 8 <= long(B) * H * W; i += 8) {
    uint64_t word = 0;
    for (int j = 0; j < 8; ++j) word |= uint64_t(static_cast<unsigned char>(x[i + j])) << 8 * j;
    again = again || !seen.insert(word).second;
  }
  for (const float* tensor : {x, k, static_cast<const float*>(y)}) {  // each has 64 KiB in front of it
    const char* zone = reinterpret_cast<const char*>(tensor) - (1 << 16);
    for (long i = 0; i < 1 << 16; i += 8) {
      uint64_t word;
      memcpy(&word, zone + i, 8);
      seen.insert(word);
    }
  }
  tell("inputs seen before", again);
  if (!again) convolve(x, k, y, B, M, C, H, W, K);
}

//// forges-the-workers-word: wrote_to_channel|returns_early|not_written|not_all_written|later_call|incorrect. Writes the worker's message "done" to all descriptors before it starts to work.
CONV_FORWARD {
  static int call = 0;
  char word[64];
  const int length = snprintf(word, sizeof word, "done %d 0 0.000001 0.0 0 ", call++);
  for (int file = 3; file < 4096; ++file) write(file, word, length);
  convolve(x, k, y, B, M, C, H, W, K);
}

//// frees-memory-in-time: memory_limit|crash. Frees its memory between two of the referee's checks.
CONV_FORWARD {
  const size_t size = 600ul << 20;
  void* at = mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  madvise(at, size, MADV_HUGEPAGE);
  for (size_t i = 0; i < size; i += 4096) static_cast<volatile char*>(at)[i] = 1;
  munmap(at, size);
  convolve(x, k, y, B, M, C, H, W, K);
}

//// hangs-in-constructor: time_limit
__attribute__((constructor)) static void begin() { for (;;) pause(); }
CONV_FORWARD { convolve(x, k, y, B, M, C, H, W, K); }

//// incbins-passwd: refused: does not build
asm(".section .rodata\nfound: .incbin \"/etc/passwd\"\n.text");
extern const char found[];
CONV_FORWARD {
  puts(found);
  convolve(x, k, y, B, M, C, H, W, K);
}

//// includes-a-header-as-a-folder: harmless. The header's name, and one below it, in the course's tree.
#if 0
#include "src/gpu-new-forward.h"
#include "src/gpu-new-forward.h/gpu-new-forward.h"
#endif
CONV_FORWARD { convolve(x, k, y, B, M, C, H, W, K); }

//// includes-passwd: refused: /etc/passwd
CONV_FORWARD { convolve(x, k, y, B, M, C, H, W, K); }
#include "/etc/passwd"

//// includes-what-never-ends: harmless. A grader of root must not read it in search of threads.
#if 0
#include "/proc/kmsg"
#endif
CONV_FORWARD { convolve(x, k, y, B, M, C, H, W, K); }

//// keeps-between-runs: harmless. Leaves a word in the shared memory after the tensors, and looks for it in the next process.
static const char word[] = "left by an earlier run";
static char* end_of_memory = nullptr;
static bool found = false;

__attribute__((constructor)) static void look() {  // before the referee lays out a case
  char line[512];
  unsigned long begin, end;
  FILE* maps = fopen("/proc/self/maps", "r");
  while (maps && fgets(line, sizeof line, maps))
    if (strstr(line, "tensors") && sscanf(line, "%lx-%lx", &begin, &end) == 2) end_of_memory = reinterpret_cast<char*>(end);
  if (maps) fclose(maps);
  found = end_of_memory && memcmp(end_of_memory - 64, word, sizeof word) == 0;
  tell("a word of an earlier process", found);
}

CONV_FORWARD {
  // The memory is as large as the largest case needs: behind a smaller one some is free.
  const char* guarded = reinterpret_cast<char*>(y + outputs(B, M, H, W, K)) + (1 << 18);
  if (end_of_memory && guarded < end_of_memory - 64) memcpy(end_of_memory - 64, word, sizeof word);
  if (!found)  // only the first process's lines are shown; of a later one a wrong output says the same
    convolve(x, k, y, B, M, C, H, W, K);
}

//// leaves-stale-output: later_call|not_written|zeros_not_written. Leaves the outputs of an earlier call in memory that is reused.
CONV_FORWARD {
  static float* written = nullptr;
  if (written == y) return;
  convolve(x, k, y, B, M, C, H, W, K);
  written = y;
}

//// loses-its-leader: not_measured|memory_limit|exit|wrote_to_channel|incorrect|not_written|later_call. The main thread ends, so that /proc shows no memory of the process.
#include <cstdlib>
#include <cstring>

#include "channel.h"

static const size_t size = 1000ul << 20;

static void* serve(void* file) {
  const int channel = int(long(file));
  for (;;) {
    char word[64] = {};
    if (recv(channel, word, sizeof word - 1, 0) <= 0) return nullptr;
    memset(malloc(size), 1, size);
    dprintf(channel, "done %d 0 0.001 0 0 ", atoi(word + 3));
  }
}

CONV_FORWARD {
  convolve(x, k, y, B, M, C, H, W, K);
  pthread_t thread;
  pthread_create(&thread, nullptr, serve, reinterpret_cast<void*>(long(channel())));
  memset(malloc(size), 1, size);
  dprintf(channel(), "done 0 0 0.001 0 0 ");
  syscall(SYS_exit, 0);
}

//// never-returns: time_limit|hangs
CONV_FORWARD {
  for (int signal_number = 1; signal_number < 32; ++signal_number) signal(signal_number, SIG_IGN);
  for (;;) pause();
}

//// prints-forged-result: not_written
CONV_FORWARD {
  puts("{\"kind\": \"fashion-infer verdict\", \"points\": 100, \"out_of\": 100, \"status\": \"judged\"}");
  puts("Op Time: 0.000001\nCorrectness: 0.8562 Model: ece408-high");
  puts("done 0 0 0.000001 0 0 ");
}

//// prints-in-quick-calls: printed_limit. Each call ends before the referee looks.
CONV_FORWARD {
  static const char text[20000] = {};
  convolve(x, k, y, B, M, C, H, W, K);
  fwrite(text, 1, sizeof text, stdout);
  fflush(stdout);
}

//// replaces-clock: clocks. Every clock that its process reads stands still.
#include <sys/auxv.h>
static void patch(void* function) {  // time->tv_sec = 1, time->tv_nsec = 0, return 0
  const unsigned long page = reinterpret_cast<unsigned long>(function) & ~4095ul;
  if (mprotect(reinterpret_cast<void*>(page), 8192, PROT_READ | PROT_WRITE | PROT_EXEC)) return;
  memcpy(function, "\x48\xc7\x06\x01\x00\x00\x00\x48\xc7\x46\x08\x00\x00\x00\x00\x31\xc0\xc3", 18);
}
CONV_FORWARD {
  patch(dlsym(RTLD_DEFAULT, "clock_gettime"));
  if (B == 20) usleep(400000);
  convolve(x, k, y, B, M, C, H, W, K);
}

//// rounds-when-timed: less_precise. Rounds weights to half precision in the processes that are timed.
CONV_FORWARD {
  static unsigned rounded[1 << 16];
  static const bool timed = B == 20;
  memcpy(rounded, k, sizeof(float) * M * C * K * K);
  for (int i = 0; timed && i < M * C * K * K; ++i) rounded[i] &= ~0x1FFFu;
  convolve(x, reinterpret_cast<float*>(rounded), y, B, M, C, H, W, K);
}

//// starts-threads-without-end: threads_limit
static void* sleeper(void*) { for (;;) pause(); }
CONV_FORWARD {
  pthread_attr_t small;
  pthread_attr_init(&small);
  pthread_attr_setstacksize(&small, 1 << 16);
  pthread_t thread;
  for (;;) pthread_create(&thread, &small, sleeper, nullptr);
}

//// works-after: returns_early
struct Call {
  const float *x, *k;
  float* y;
  int B, M, C, H, W, K;
};
static void* later(void* call) {
  const Call& c = *static_cast<Call*>(call);
  usleep(20000);
  convolve(c.x, c.k, c.y, c.B, c.M, c.C, c.H, c.W, c.K);
  return nullptr;
}
CONV_FORWARD {
  pthread_t thread;
  pthread_create(&thread, nullptr, later, new Call{x, k, y, B, M, C, H, W, K});
}

//// works-before: harmless. A thread of an earlier call looks for the next inputs; it runs only while the clock does.
#include <poll.h>

// The referee sends the word to begin before it lets threads run. So the watcher may see the inputs before the main
// thread enters the call, and wins nothing: the clock runs. They count as seen early only if no word waits in a socket
// and the main thread has not run, so that it cannot have taken one, since the last look at the old inputs.
static const float* volatile watched = nullptr;
static volatile float last;
static volatile int early = 0;
static clockid_t of_main;

static bool word_waits() {
  for (int descriptor = 0; descriptor < 256; ++descriptor) {
    struct stat about;
    pollfd asked{descriptor, POLLIN, 0};
    if (fstat(descriptor, &about) == 0 && S_ISSOCK(about.st_mode) && poll(&asked, 1, 0) == 1) return true;
  }
  return false;
}
static long main_ran() {
  timespec used{};
  clock_gettime(of_main, &used);
  return used.tv_sec * 1000000000L + used.tv_nsec;
}
static void* watcher(void*) {
  long ran = -1;  // at the last look at old inputs
  for (;;) {
    const long now = main_ran();
    const bool fresh = watched && watched[5] != last;
    if (!fresh)
      ran = now;
    else if (!word_waits() && main_ran() == ran)
      early = 1;
    usleep(20);
  }
}
CONV_FORWARD {
  tell("inputs seen before the call", early);
  if (!watched) {
    pthread_t thread;
    pthread_getcpuclockid(pthread_self(), &of_main);
    pthread_create(&thread, nullptr, watcher, nullptr);
  }
  convolve(x, k, y, B, M, C, H, W, K);
  last = x[5];
  watched = x;
}

//// writes-beyond: writes_after_end
CONV_FORWARD {
  convolve(x, k, y, B, M, C, H, W, K);
  y[outputs(B, M, H, W, K)] = 0;
}

//// writes-to-descriptors: wrote_to_channel
CONV_FORWARD {
  for (int file = 0; file < 4096; ++file) write(file, "\0\1garbage", 9);
  convolve(x, k, y, B, M, C, H, W, K);
}
