// Ends as: not_measured|memory_limit|exit|wrote_to_channel|incorrect|not_written|later_call. The main thread ends, so that /proc shows no memory of the process.
#include <cstdlib>
#include <cstring>

#include "channel.h"
#include "conv.h"

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

extern "C" void conv_forward(const float* x, const float* k, float* y, int B, int M, int C, int H, int W, int K) {
  convolve(x, k, y, B, M, C, H, W, K);
  pthread_t thread;
  pthread_create(&thread, nullptr, serve, reinterpret_cast<void*>(long(channel())));
  memset(malloc(size), 1, size);
  dprintf(channel(), "done 0 0 0.001 0 0 ");
  syscall(SYS_exit, 0);
}
