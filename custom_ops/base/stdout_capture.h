// What somebody's code prints while it runs: off stdout, where scripts read our own lines, and on stderr under its name.
#pragma once

#include <mutex>
#include <string>

namespace fops {

// One line on stderr: "[name] line".
void tell(const char* name, const char* line) noexcept;

// While one lives, file descriptor 1 is a file in memory; at its end the lines there go to stderr, or nowhere when it is
// `quiet`. One at a time in the process: others wait. When the code calls exit(), what it printed is still told.
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
