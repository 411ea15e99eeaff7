// The macros CHECK and LOG, as kernel files of fa2017 to fa2019 use them. A failed check throws an exception, whose message
// is shown to the user.
#ifndef DMLC_LOGGING_H_
#define DMLC_LOGGING_H_

#include <iostream>
#include <sstream>
#include <stdexcept>

namespace dmlc {

struct Error : std::runtime_error {
  using std::runtime_error::runtime_error;
};

// Collects a message. The destructor throws it if `fatal` is true, and otherwise prints it on stdout.
class LogMessage {
 public:
  LogMessage(const char* file, int line, bool fatal) : fatal_(fatal) { text_ << file << ":" << line << ": "; }
  ~LogMessage() noexcept(false) {
    if (fatal_) throw Error(text_.str());
    std::cout << text_.str() << std::endl;
  }
  std::ostringstream& stream() { return text_; }

 private:
  std::ostringstream text_;
  bool fatal_;
};

}  // namespace dmlc

#define FOPS_LOG_FATAL() ::dmlc::LogMessage(__FILE__, __LINE__, true).stream()
#define FOPS_LOG_INFO() ::dmlc::LogMessage(__FILE__, __LINE__, false).stream()
#define FOPS_LOG_WARNING() FOPS_LOG_INFO()
#define FOPS_LOG_ERROR() FOPS_LOG_INFO()
#define LOG(severity) FOPS_LOG_##severity()
#define CHECK(condition) \
  if (!(condition)) FOPS_LOG_FATAL() << "Check failed: " #condition " "
#define FOPS_CHECK_OP(a, op, b) \
  if (!((a)op(b))) FOPS_LOG_FATAL() << "Check failed: " #a " " #op " " #b " (" << (a) << " vs. " << (b) << ") "
#define CHECK_EQ(a, b) FOPS_CHECK_OP(a, ==, b)
#define CHECK_NE(a, b) FOPS_CHECK_OP(a, !=, b)
#define CHECK_LT(a, b) FOPS_CHECK_OP(a, <, b)
#define CHECK_LE(a, b) FOPS_CHECK_OP(a, <=, b)
#define CHECK_GT(a, b) FOPS_CHECK_OP(a, >, b)
#define CHECK_GE(a, b) FOPS_CHECK_OP(a, >=, b)

#endif
