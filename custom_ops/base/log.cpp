#include "base/log.h"

#include <pthread.h>

#include <deque>
#include <mutex>

namespace fops {
namespace {

constexpr size_t kCapacity = 65536;  // at most 7.4 MB of records; a full log drops its oldest record for each new one

struct Log {
  std::mutex mutex;
  std::deque<fops_op_record> records;
};

Log* log = nullptr;  // never destroyed, because a thread may still add a record after static objects are destroyed
std::once_flag once;

// Locks the log during a fork, because the child has no copy of a thread that held the lock, and so the lock would
// never be released there.
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
  } catch (...) {  // out of memory: the record is lost, but the forward pass has succeeded
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
