// Ends as: harmless. Makes calls that would reach out of the box, escape its limits or disturb the referee, once per process.
#include "conv.h"

#include <mqueue.h>
#include <sched.h>
#include <sys/inotify.h>
#include <sys/ioctl.h>
#include <sys/ipc.h>
#include <sys/mount.h>
#include <sys/msg.h>
#include <sys/prctl.h>
#include <sys/sem.h>
#include <sys/shm.h>
#include <sys/xattr.h>

static void reads_files_and_folders() {
  const char* files[] = {"/etc/passwd", "/etc/shadow", "/etc/hostname", "/proc/1/environ", "/proc/self/../../etc/passwd"};
  for (const char* file : files) tell(file, open(file, O_RDONLY) >= 0);
  for (const char* folder : {"/root", "/home", "/mnt", "/", "/var", "/etc", "/opt", "/srv", "/dev", "/run"})
    tell(folder, opendir(folder) != nullptr);
}

// Whether a folder shows anything but one name.
static bool shows_more(const char* folder, const char* own) {
  DIR* opened = opendir(folder);
  if (!opened) return false;
  while (const dirent* entry = readdir(opened))
    if (entry->d_name[0] != '.' && strcmp(entry->d_name, own) != 0) return true;
  return false;
}

static void reads_other_submissions(void* function) {
  Dl_info info;
  dladdr(function, &info);
  char folder[4096];
  snprintf(folder, sizeof folder, "%s", info.dli_fname);
  char* name = strrchr(folder, '/');
  *name++ = 0;
  tell("folder of builds", shows_more(folder, name));
  snprintf(name - 1, 16, "/../graded");
  tell("folder of submissions", shows_more(folder, ""));
  tell("write to its own library", open(info.dli_fname, O_RDWR) >= 0);
}

static void reaches_processes() {  // the parent or another process may be the referee
  char name[64], data[16];
  for (pid_t pid : {getppid(), pid_t(1), pid_t(2), pid_t(getppid() - 1)}) {
    if (pid == getpid() || pid <= 0) continue;
    snprintf(name, sizeof name, "/proc/%d/mem", pid);
    tell(name, open(name, O_RDONLY) >= 0 || open(name, O_RDWR) >= 0);
    snprintf(name, sizeof name, "/proc/%d/environ", pid);
    const int file = open(name, O_RDONLY);
    tell(name, file >= 0 && read(file, data, sizeof data) > 0);
    iovec local = {data, sizeof data}, remote = {reinterpret_cast<void*>(0x400000), sizeof data};
    tell("process_vm_readv", process_vm_readv(pid, &local, 1, &remote, 1, 0) > 0);
    tell("ptrace", ptrace(PTRACE_ATTACH, pid, nullptr, nullptr) == 0);
  }
  for (pid_t pid : {pid_t(1), getppid()}) {
    if (pid == getpid() || pid <= 0) continue;
    snprintf(name, sizeof name, "/proc/%d/maps", pid);
    tell(name, open(name, O_RDONLY) >= 0);
    for (int number : {SIGCONT, SIGKILL}) tell("signal to the first process or the parent", kill(pid, number) == 0);
  }
  tell("kill all", kill(-1, SIGKILL) == 0);
  tell("kill the group", kill(0, SIGKILL) == 0);
  tell("queue a signal", syscall(SYS_rt_sigqueueinfo, getppid(), SIGKILL, nullptr) == 0);
}

static void opens_sockets() {
  for (int family : {AF_INET, AF_INET6, AF_NETLINK, AF_PACKET, AF_UNIX})
    for (int type : {SOCK_STREAM, SOCK_DGRAM, SOCK_RAW}) tell("socket", socket(family, type, 0) >= 0);
  int pair[2];
  tell("socketpair", socketpair(AF_UNIX, SOCK_STREAM, 0, pair) == 0);
  tell("io_uring", syscall(425, 8, nullptr) >= 0);
}

static void starts_processes() {
  int made = 0;
  for (int i = 0; i < 10000; ++i) {
    const pid_t pid = fork();
    if (pid == 0) for (;;) fork();
    made += pid > 0;
  }
  tell("fork", made > 0);
  tell("daemon", daemon(0, 0) == 0);
  tell("setsid", setsid() >= 0);
  tell("setpgid", setpgid(0, 0) == 0);
  tell("vfork and exec", system("sleep 1000 &") == 0);
  tell("environment of the grader", getenv("USER") || getenv("LD_LIBRARY_PATH") || getenv("FASHION_INFER_DATA"));
  setenv("LD_PRELOAD", "/tmp/mine.so", 1);
  char* command[] = {const_cast<char*>("/proc/self/exe"), nullptr};
  tell("exec", execv(command[0], command) == 0);
}

static void reaches_the_system() {  // many exploits of the system's kernel need a namespace first
  tell("unshare", unshare(CLONE_NEWUSER) == 0);
  tell("clone", syscall(SYS_clone, CLONE_NEWUSER | SIGCHLD, 0, 0, 0, 0) >= 0);
  tell("mount", mount("none", "/tmp", "tmpfs", 0, nullptr) == 0);
  tell("bpf", syscall(SYS_bpf, 0, nullptr, 0) >= 0);
  tell("perf_event_open", syscall(SYS_perf_event_open, nullptr, 0, -1, -1, 0) >= 0);
  tell("keyctl", syscall(SYS_keyctl, 0, 0, 0, 0, 0) >= 0);
  tell("userfaultfd", syscall(SYS_userfaultfd, 0) >= 0);
  tell("setuid", setuid(0) == 0 && open("/etc/shadow", O_RDONLY) >= 0);
  timespec now = {0, 0};
  tell("clock_settime", clock_settime(CLOCK_REALTIME, &now) == 0);
}

static void continues_while_stopped() {
  sigevent continues{};
  continues.sigev_notify = SIGEV_SIGNAL;
  continues.sigev_signo = SIGCONT;
  timer_t timer;
  tell("a timer that continues a stopped process", syscall(SYS_timer_create, CLOCK_MONOTONIC, &continues, &timer) == 0);
  tell("a descriptor that continues a stopped process", fcntl(0, F_SETSIG, SIGCONT) == 0);
  tell("a message that continues a stopped process", syscall(SYS_mq_notify, 0, &continues) == 0);
  unsigned long context = 0;
  tell("the kernel's own input and output", syscall(SYS_io_setup, 8, &context) == 0);
  tell("a signal from another thread", kill(getpid(), SIGCONT) == 0);
  tell("the same to a thread", syscall(SYS_tgkill, getpid(), syscall(SYS_gettid), SIGCONT) == 0);
}

static bool hidden(int flags, int file) {  // no process's resident size shows it
  const size_t block = 1 << 24, most = 1 << 29;  // twice the rubric's limit
  for (size_t got = 0; got < most; got += block) {
    void* at = mmap(nullptr, block, PROT_READ | PROT_WRITE, flags, file, 0);
    if (at == MAP_FAILED) return false;
    memset(at, 1, block);
    madvise(at, block, MADV_DONTNEED);
  }
  return true;
}

static void hides_memory() {
  tell("shared anonymous memory", hidden(MAP_SHARED | MAP_ANONYMOUS, -1));
  tell("a shared mapping of zeros", hidden(MAP_SHARED, open("/dev/zero", O_RDWR)));
  void* huge = mmap(nullptr, 2 << 20, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_HUGETLB, -1, 0);
  tell("reserved huge pages", huge != MAP_FAILED || errno != EPERM);  // if none are reserved, ENOMEM without a filter
  tell("a process that is not dumpable", prctl(PR_SET_DUMPABLE, 0) == 0);
  tell("a process that any process may trace", prctl(PR_SET_PTRACER, PR_SET_PTRACER_ANY) == 0);
  tell("a file in memory", syscall(SYS_memfd_create, "hidden", 0) >= 0);
  tell("a secret file in memory", syscall(SYS_memfd_secret, 0) >= 0);
  tell("a message queue by name", syscall(SYS_mq_open, "left", O_CREAT | O_RDWR, 0600, nullptr) >= 0);
  tell("System V shared memory", syscall(SYS_shmget, IPC_PRIVATE, 1 << 20, IPC_CREAT | 0600) >= 0);
  tell("memory by another's number", syscall(SYS_shmctl, 0, IPC_STAT, nullptr) >= 0 || errno != EPERM);
  tell("a System V message queue", syscall(SYS_msgget, IPC_PRIVATE, IPC_CREAT | 0600) >= 0);
  tell("System V semaphores", syscall(SYS_semget, IPC_PRIVATE, 1, IPC_CREAT | 0600) >= 0);
  struct flock range{F_WRLCK, SEEK_SET, 0, 1, 0};
  const int own = open("/tmp/own", O_RDWR | O_CREAT, 0600);
  tell("a lock of a range", fcntl(own, F_SETLK, &range) == 0);
  tell("attributes and access lists of files", fsetxattr(own, "user.a", "", 0, 0) == 0);
  close(own);
  tell("events of files", inotify_init1(0) >= 0);
  tell("a filter", syscall(SYS_seccomp, 1, 0, nullptr) == 0 || errno != EPERM);
  tell("rules of Landlock", syscall(444, nullptr, 0, 1) >= 0);
  tell("a table of futexes", prctl(78, 1, 1ul << 20, 0) == 0);
}

static void slows_the_referee() {
  cpu_set_t one;
  sched_param low{};
  int reached = 0, files[2];
  for (pid_t other = 1; other < 65536; ++other) {
    if (other == getpid()) continue;
    rlimit limit;
    const bool seen = syscall(SYS_prlimit64, other, RLIMIT_NOFILE, nullptr, &limit) == 0;
    reached += seen && syscall(SYS_prlimit64, other, RLIMIT_NOFILE, &limit, nullptr) == 0;
    if (sched_getscheduler(other) == SCHED_OTHER)
      reached += syscall(SYS_sched_setscheduler, other, SCHED_OTHER, &low) == 0;
    if (syscall(SYS_sched_getaffinity, other, sizeof one, &one) > 0)  // as it is: the tests' machine goes on
      reached += syscall(SYS_sched_setaffinity, other, sizeof one, &one) == 0;
  }
  tell("another's limits or affinity", reached > 0);
  errno = 0;
  const int nice_now = getpriority(PRIO_USER, 0);
  tell("the priority of a user's processes", setpriority(PRIO_USER, 0, nice_now) == 0);
  tell("the priority of a user's reads", syscall(SYS_ioprio_set, 3, 0, 0) == 0);
  const bool piped = pipe(files) == 0;
  tell("a descriptor whose signals go elsewhere", piped && fcntl(files[0], F_SETOWN, getppid()) == 0);
  pid_t parent = getppid();
  tell("the same by another name", piped && ioctl(files[0], 0x8901, &parent) == 0);
  tell("outliving the referee", syscall(SYS_prctl, 1, 0, 0, 0, 0) == 0);  // PR_SET_PDEATHSIG
}

extern "C" void conv_forward(const float* x, const float* k, float* y, int B, int M, int C, int H, int W, int K) {
  static bool tried = false;
  for (int file = 3; file < 4096; ++file)  // a referee that reads memory that is gone would end by SIGBUS
    if (ftruncate(file, 0) == 0) tell("ftruncate", true);
  if (!tried) {
    tried = true;
    reads_files_and_folders();
    reads_other_submissions(reinterpret_cast<void*>(&conv_forward));
    reaches_processes();
    opens_sockets();
    starts_processes();
    reaches_the_system();
    continues_while_stopped();
    hides_memory();
    slows_the_referee();
  }
  convolve(x, k, y, B, M, C, H, W, K);
}
