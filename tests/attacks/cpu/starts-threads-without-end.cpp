// Ends as: threads_limit
#include "conv.h"
static void* sleeper(void*) { for (;;) pause(); }
extern "C" void conv_forward(const float* x, const float* k, float* y, int B, int M, int C, int H, int W, int K) {
  pthread_attr_t small;
  pthread_attr_init(&small);
  pthread_attr_setstacksize(&small, 1 << 16);
  pthread_t thread;
  for (;;) pthread_create(&thread, &small, sleeper, nullptr);
}
