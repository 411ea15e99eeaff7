// The referee's channel, for attacks that answer in the worker's place.
#pragma once

#include <cstdio>
#include <sys/socket.h>
#include <sys/stat.h>
#include <time.h>

static inline double seconds() {
  timespec now{};
  clock_gettime(CLOCK_MONOTONIC, &now);
  return now.tv_sec + 1e-9 * now.tv_nsec;
}

static inline int channel() {
  for (int descriptor = 3; descriptor < 256; ++descriptor) {
    struct stat about;
    if (fstat(descriptor, &about) == 0 && S_ISSOCK(about.st_mode)) return descriptor;
  }
  return -1;
}

template <class... Values>
static inline void answer(const char* format, Values... values) {
  char word[128];
  send(channel(), word, snprintf(word, sizeof word, format, values...), 0);
}

static inline void next_call() {
  char word[1024];
  recv(channel(), word, sizeof word, 0);
}
