// Ends as: harmless. A thread of an earlier call looks for the next inputs; it runs only while the clock does.
#include "conv.h"
static const float* volatile watched = nullptr;
static volatile float last;
static volatile long early = 0;
static volatile int within = 0;
static void* watcher(void*) {
  for (;;) {
    const float now = watched ? watched[5] : last;  // read before the question whether a call runs: it may begin here
    if (!within && now != last) {
      last = now;
      ++early;
    }
    usleep(100);
  }
}
extern "C" void conv_forward(const float* x, const float* k, float* y, int B, int M, int C, int H, int W, int K) {
  within = 1;
  tell("inputs seen before the call", early > 1);
  if (!watched) {
    pthread_t thread;
    pthread_create(&thread, nullptr, watcher, nullptr);
  }
  convolve(x, k, y, B, M, C, H, W, K);
  watched = x;
  last = x[5];
  within = 0;
}
