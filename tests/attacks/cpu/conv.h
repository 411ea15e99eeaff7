// A right convolution, and what the attacks share.
#pragma once

#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <initializer_list>

#include <dirent.h>
#include <dlfcn.h>
#include <fcntl.h>
#include <pthread.h>
#include <sys/mman.h>
#include <sys/ptrace.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/types.h>
#include <sys/uio.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static inline long outputs(int B, int M, int H, int W, int K) { return long(B) * M * (H - K + 1) * (W - K + 1); }

static inline void convolve(const float* x, const float* k, float* y, int B, int M, int C, int H, int W, int K) {
  const int Ho = H - K + 1, Wo = W - K + 1;
  for (long i = 0; i < outputs(B, M, H, W, K); ++i) {
    const long w = i % Wo, h = i / Wo % Ho, m = i / (long(Wo) * Ho) % M, b = i / (long(Wo) * Ho * M);
    float sum = 0;
    for (int c = 0; c < C; ++c)
      for (int p = 0; p < K; ++p)
        for (int q = 0; q < K; ++q) sum += x[((b * C + c) * H + h + p) * W + w + q] * k[((m * C + c) * K + p) * K + q];
    y[i] = sum;
  }
}

// Says whether an attempt got through: the tests look for the word.
static inline void tell(const char* what, bool got_through) {
  printf("%s: %s (%s)\n", what, got_through ? "GOT THROUGH" : "stopped", strerror(errno));
  fflush(stdout);
}
