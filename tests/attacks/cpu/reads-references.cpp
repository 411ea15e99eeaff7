// Ends as: harmless. Tries the parent and other process IDs as the referee.
#include "conv.h"
extern "C" void conv_forward(const float* x, const float* k, float* y, int B, int M, int C, int H, int W, int K) {
  char name[64], data[16];
  for (pid_t pid : {getppid(), pid_t(1), pid_t(2), pid_t(getppid() - 1)}) {
    if (pid == getpid() || pid <= 0) continue;
    snprintf(name, sizeof name, "/proc/%d/mem", pid);
    tell(name, open(name, O_RDONLY) >= 0);
    snprintf(name, sizeof name, "/proc/%d/environ", pid);
    const int file = open(name, O_RDONLY);
    tell(name, file >= 0 && read(file, data, sizeof data) > 0);
    iovec local = {data, sizeof data}, remote = {reinterpret_cast<void*>(0x400000), sizeof data};
    tell("process_vm_readv", process_vm_readv(pid, &local, 1, &remote, 1, 0) > 0);
    tell("ptrace", ptrace(PTRACE_ATTACH, pid, nullptr, nullptr) == 0);
  }
  convolve(x, k, y, B, M, C, H, W, K);
}
