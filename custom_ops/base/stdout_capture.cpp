#include "base/stdout_capture.h"

#include <sys/mman.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>

namespace fops {

namespace {

struct Capture {
  std::mutex mutex;
  int memory = -1, kept = -1;  // the file in memory, and what stdout was; -1 while nothing is captured
  const char* name = "";
  bool quiet = false;
};

Capture& the_capture() {
  static Capture* capture = new Capture;  // never destroyed: exit() comes here
  return *capture;
}

// Puts stdout back and tells what was printed.
void finish() noexcept {
  Capture& capture = the_capture();
  if (capture.memory < 0) return;
  fflush(stdout);
  dup2(capture.kept, STDOUT_FILENO);
  close(capture.kept);
  const int memory = capture.memory;
  capture.memory = capture.kept = -1;
  if (!capture.quiet && lseek(memory, 0, SEEK_SET) == 0) {
    if (FILE* printed = fdopen(memory, "r")) {
      char* line = nullptr;
      size_t room = 0;
      for (ssize_t n; (n = getline(&line, &room, printed)) > 0;) {
        if (line[n - 1] == '\n') line[n - 1] = 0;
        tell(capture.name, line);
      }
      free(line);
      fclose(printed);
      return;
    }
  }
  close(memory);
}

}  // namespace

void tell(const char* name, const char* line) noexcept { fprintf(stderr, "[%s] %s\n", name, line); }

StdoutCapture::StdoutCapture(const char* name, bool quiet) noexcept : lock_(the_capture().mutex) {
  static const int at_exit = atexit(finish);  // a file that calls exit(-1) says why on stdout
  (void)at_exit;
  fflush(stdout);
  Capture& capture = the_capture();
  const int memory = memfd_create("stdout of a kernel", MFD_CLOEXEC);
  const int kept = memory < 0 ? -1 : dup(STDOUT_FILENO);
  if (kept < 0 || dup2(memory, STDOUT_FILENO) < 0) {  // out of file descriptors: the lines go where they go
    if (memory >= 0) close(memory);
    if (kept >= 0) close(kept);
    return;
  }
  capture.memory = memory;
  capture.kept = kept;
  capture.name = name;
  capture.quiet = quiet;
}

StdoutCapture::~StdoutCapture() { finish(); }

}  // namespace fops
