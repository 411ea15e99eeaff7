#pragma once

#include <cstdint>
#include <functional>

namespace fops {

// The number of threads that a pass may use: as set by fops_set_threads, or by default the number of cores that this
// process may run on.
int pool_threads();

// Sets the result of pool_threads(); 0 restores the default.
void set_pool_threads(int threads);

// Calls body(item, worker) once for every item in [0, count), and returns when all calls have returned. Uses at most
// `threads` threads, including the calling one. `worker` is in [0, threads), and calls that run at the same time have
// different workers, so it can be the index of scratch memory. Items are assigned one at a time, so their costs may
// differ. `body` must not throw. Calls of parallel_for from several threads run one after the other; one from within a
// body runs entirely in that thread, with worker 0.
void parallel_for(int64_t count, int threads, const std::function<void(int64_t item, int worker)>& body);

}  // namespace fops
