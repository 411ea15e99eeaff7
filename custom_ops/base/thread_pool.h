// The library's one thread pool.
#pragma once

#include <cstdint>
#include <functional>

namespace fops {

// Threads that a pass may use: as set by fops_set_threads, else the cores this process may run on.
int pool_threads();

// Sets the result of pool_threads(); 0 restores the default.
void set_pool_threads(int threads);

// Calls body(item, worker) once for every item in [0, count), on at most `threads` threads, the calling one among
// them; worker is in [0, threads) and no two calls in flight share one, so it can index scratch memory.
// Items are assigned one at a time, so they may differ in cost. Returns when all are done. `body` must not throw. Calls
// from several threads run one after the other; a call from within a body runs in that thread.
void parallel_for(int64_t count, int threads, const std::function<void(int64_t item, int worker)>& body);

}  // namespace fops
