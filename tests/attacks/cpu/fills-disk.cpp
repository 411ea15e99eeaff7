// Ends as: harmless
#include "conv.h"
static char block[1 << 20];
extern "C" void conv_forward(const float* x, const float* k, float* y, int B, int M, int C, int H, int W, int K) {
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
