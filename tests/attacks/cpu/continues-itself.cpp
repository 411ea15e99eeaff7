// Ends as: harmless. Asks the kernel to wake it while it is stopped, and for memory that outlives it.
#include "conv.h"

#include <mqueue.h>
#include <sys/msg.h>
#include <sys/sem.h>
#include <sys/shm.h>

extern "C" void conv_forward(const float* x, const float* k, float* y, int B, int M, int C, int H, int W, int K) {
  sigevent continues{};
  continues.sigev_notify = SIGEV_SIGNAL;
  continues.sigev_signo = SIGCONT;
  timer_t timer;
  tell("a timer that continues a stopped process", syscall(SYS_timer_create, CLOCK_MONOTONIC, &continues, &timer) == 0);
  tell("a descriptor that continues a stopped process", fcntl(0, F_SETSIG, SIGCONT) == 0);
  tell("a message that continues a stopped process", syscall(SYS_mq_notify, 0, &continues) == 0);
  tell("a message queue by name", syscall(SYS_mq_open, "left", O_CREAT | O_RDWR, 0600, nullptr) >= 0);
  unsigned long context = 0;
  tell("the kernel's own input and output", syscall(SYS_io_setup, 8, &context) == 0);
  tell("System V shared memory", syscall(SYS_shmget, IPC_PRIVATE, 1 << 20, IPC_CREAT | 0600) >= 0);
  tell("a System V message queue", syscall(SYS_msgget, IPC_PRIVATE, IPC_CREAT | 0600) >= 0);
  tell("System V semaphores", syscall(SYS_semget, IPC_PRIVATE, 1, IPC_CREAT | 0600) >= 0);
  convolve(x, k, y, B, M, C, H, W, K);
}
