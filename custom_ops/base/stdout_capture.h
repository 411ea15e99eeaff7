// Redirects what a kernel prints from stdout to stderr, and marks each line with the kernel's name. Scripts read the
// program's own lines on stdout.
#pragma once

#include <mutex>
#include <string>

namespace fops {

void tell(const char* name, const char* line) noexcept;

// While an object exists, file descriptor 1 is a file in memory. Its destructor prints the captured lines on stderr, or
// drops them if `quiet` is true. A process has one capture at a time; other threads wait. If the kernel calls exit(), the
// lines are printed even if `quiet` is true.
class StdoutCapture {
 public:
  StdoutCapture(const char* name, bool quiet) noexcept;
  ~StdoutCapture();
  StdoutCapture(const StdoutCapture&) = delete;
  StdoutCapture& operator=(const StdoutCapture&) = delete;

 private:
  std::unique_lock<std::mutex> lock_;
};

}  // namespace fops
