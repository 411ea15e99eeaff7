// The op-time log: a bounded queue of finished forward passes, oldest first.
#include <cstring>
#include <deque>
#include <mutex>

#include "status.h"

namespace {

constexpr size_t kCapacity = 65536;  // 15 MB at most; a caller that never drains loses the oldest

struct Log {
  std::mutex mutex;
  std::deque<fops_op_record> records;
};

Log& the_log() {
  static Log* log = new Log;  // never destroyed: a worker may finish after main's statics are gone
  return *log;
}

void copy_name(char* to, size_t size, const char* from) {
  strncpy(to, from ? from : "", size - 1);
  to[size - 1] = '\0';
}

}  // namespace

namespace fops {

void log_op(const char* layer, const char* kernel, const fops_conv& conv, double seconds, double upload,
            double download) noexcept {
  if (!layer) return;
  fops_op_record record{};
  copy_name(record.layer, sizeof record.layer, layer);
  copy_name(record.kernel, sizeof record.kernel, kernel);
  record.conv = conv;
  record.seconds = seconds;
  record.upload = upload;
  record.download = download;
  try {
    Log& log = the_log();
    std::lock_guard<std::mutex> lock(log.mutex);
    if (log.records.size() == kCapacity) log.records.pop_front();
    log.records.push_back(record);
  } catch (...) {  // out of memory: a lost timing must not fail the forward pass it describes
  }
}

}  // namespace fops

extern "C" int fops_log_size(void) {
  Log& log = the_log();
  std::lock_guard<std::mutex> lock(log.mutex);
  return static_cast<int>(log.records.size());
}

extern "C" int fops_log_drain(fops_op_record* out, int capacity) {
  if (!out || capacity <= 0) return 0;
  Log& log = the_log();
  std::lock_guard<std::mutex> lock(log.mutex);
  int n = 0;
  for (; n < capacity && !log.records.empty(); ++n) {
    out[n] = log.records.front();
    log.records.pop_front();
  }
  return n;
}
