// The file in memory is kept from one capture to the next, so that a capture begins with only three cheap system calls
// (getpid, dup, dup2). On a GPU they fall between the timing event and the kernel.
#include "base/stdout_capture.h"

#include <sys/mman.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>

namespace fops {
namespace {

struct Capture {
  std::mutex mutex;
  int memory = -1;  // descriptor of the file in memory
  pid_t owner = 0;  // the process that made the file: a forked child makes a new one
  int kept = -1;    // duplicate of the original stdout's descriptor; -1 while nothing is captured
  const char* name = "";
  bool quiet = false;
};

Capture& the_capture() {
  static Capture* capture = new Capture;  // never destroyed, because finish_at_exit uses it during exit()
  return *capture;
}

void tell_all(const char* name, int memory, off_t size) {
  std::string text(static_cast<size_t>(size), '\0');
  const ssize_t n = pread(memory, &text[0], text.size(), 0);
  text.resize(n > 0 ? static_cast<size_t>(n) : 0);
  for (size_t at = 0; at < text.size();) {
    const size_t end = text.find('\n', at) == std::string::npos ? text.size() : text.find('\n', at);
    tell(name, text.substr(at, end - at).c_str());
    at = end + 1;
  }
}

// Ends a capture: restores stdout and, unless the call is quiet, reports the captured lines on stderr.
void finish() noexcept {
  Capture& capture = the_capture();
  if (capture.kept < 0) return;
  fflush(stdout);
  dup2(capture.kept, STDOUT_FILENO);
  close(capture.kept);
  capture.kept = -1;
  const off_t size = lseek(capture.memory, 0, SEEK_END);
  if (size <= 0) return;
  try {
    if (!capture.quiet) tell_all(capture.name, capture.memory, size);
  } catch (...) {  // out of memory: the lines are lost, but the kernel's call has succeeded
  }
  if (ftruncate(capture.memory, 0) == 0) lseek(capture.memory, 0, SEEK_SET);
}

// Reports the captured lines, even of a quiet call, if a kernel calls exit(): they may say why it does. Then ends the
// process at once, because exit handlers of other libraries could wait for the thread that called the kernel.
void finish_at_exit(int status, void*) {
  const bool inside = the_capture().kept >= 0;
  the_capture().quiet = false;
  finish();
  if (!inside) return;
  fflush(nullptr);
  _exit(status);
}

}  // namespace

void tell(const char* name, const char* line) noexcept { fprintf(stderr, "[%s] %s\n", name, line); }

StdoutCapture::StdoutCapture(const char* name, bool quiet) noexcept : lock_(the_capture().mutex) {
  static const int at_exit = on_exit(finish_at_exit, nullptr);
  (void)at_exit;
  Capture& capture = the_capture();
  if (capture.owner != getpid()) {
    capture.memory = memfd_create("stdout of a kernel", MFD_CLOEXEC);
    capture.owner = getpid();
  }
  fflush(stdout);
  const int kept = capture.memory < 0 ? -1 : dup(STDOUT_FILENO);
  if (kept < 0 || dup2(capture.memory, STDOUT_FILENO) < 0) {  // a call has failed: the lines go to stdout
    if (kept >= 0) close(kept);
    return;
  }
  capture.kept = kept;
  capture.name = name;
  capture.quiet = quiet;
}

StdoutCapture::~StdoutCapture() { finish(); }

}  // namespace fops
