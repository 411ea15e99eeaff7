// Redirects output of user code from stdout, where scripts read the program's lines, to stderr, marked with its name.
#pragma once

#include <mutex>
#include <string>

namespace fops {

// One line on stderr: "[name] line".
void tell(const char* name, const char* line) noexcept;

// While a capture exists, file descriptor 1 is a file in memory; at its end the lines go to stderr, or nowhere if it is
// `quiet`. There is one at a time per process: others wait. If the code calls exit(), its output is still reported.
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
