#include "base/log.h"

#include <pthread.h>

#include <deque>
#include <mutex>

namespace fops {

namespace {

constexpr size_t kCapacity = 65536;  // 6 MB at most; a caller that never drains loses the oldest

struct Log {
  std::mutex mutex;
  std::deque<fops_op_record> records;
};

Log* log = nullptr;  // never destroyed: a worker may finish after main's statics are gone
std::once_flag once;

// A fork waits until no thread uses the log: in the child, no other thread would be left to release the lock.
Log& the_log() {
  std::call_once(once, [] {
    log = new Log;
    pthread_atfork([] { log->mutex.lock(); }, [] { log->mutex.unlock(); }, [] { log->mutex.unlock(); });
  });
  return *log;
}

}  // namespace

void log_op(int32_t first_node, int32_t last_node, const char* kernel, const fops_conv& conv, double seconds,
            double upload, double download, double layer_seconds, uint32_t findings) noexcept {
  if (first_node == FOPS_NOT_LOGGED) return;
  try {
    Log& log = the_log();
    std::lock_guard<std::mutex> lock(log.mutex);
    if (log.records.size() == kCapacity) log.records.pop_front();
    log.records.push_back({first_node, last_node, kernel, conv, seconds, upload, download, layer_seconds, findings});
  } catch (...) {  // out of memory: a lost timing must not fail the forward pass it describes
  }
}

int log_size() {
  Log& log = the_log();
  std::lock_guard<std::mutex> lock(log.mutex);
  return static_cast<int>(log.records.size());
}

int log_drain(fops_op_record* out, int capacity) {
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

}  // namespace fops
