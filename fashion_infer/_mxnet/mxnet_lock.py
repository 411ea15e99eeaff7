"""Lock for MXNet, the op-time log, the number of threads and stderr, which only one thread at a time may use.

MXNet 1.9.1 must not be called from two threads at once: when two partition a graph, one graph stays unfused. A fork
waits until no other thread holds the lock, because MXNet's fork handlers require that MXNet is idle.
"""

import functools
import os
import threading
from collections import deque


class _Queue:
    """A reentrant lock that threads get in the order of their requests; else a fork might wait forever."""

    def __init__(self, owner=None, depth=0):
        self._owner, self._depth = owner, depth
        self._waiting = deque()
        self._door = threading.Lock()  # protects the fields of this object; held only briefly

    def acquire(self):
        me = threading.get_ident()
        with self._door:
            if self._owner in (None, me):
                self._owner, self._depth = me, self._depth + 1
                return
            turn = (me, threading.Lock())
            turn[1].acquire()
            self._waiting.append(turn)
        try:
            turn[1].acquire()  # blocks until `release` gives this thread the lock
        except BaseException:  # Ctrl-C
            with self._door:
                handed_over = turn not in self._waiting
                if not handed_over:
                    self._waiting.remove(turn)
            if handed_over:
                self.release()
            raise

    def release(self):
        with self._door:
            self._depth -= 1
            if self._depth:
                return
            self._owner = None
            if self._waiting:
                self._owner, turn = self._waiting.popleft()
                self._depth = 1
                turn.release()

    def release_in_child(self):
        """Release the lock after a fork, and empty the queue, because the waiting threads do not exist in the child."""
        self.__init__(self._owner if self._depth > 1 else None, self._depth - 1)

    __enter__ = acquire

    def __exit__(self, *_):
        self.release()


lock = _Queue()
os.register_at_fork(before=lock.acquire, after_in_parent=lock.release, after_in_child=lock.release_in_child)


def once(function):
    """Make a function without arguments run once per process, even if several threads call it."""
    kept = functools.lru_cache(maxsize=None)(function)

    @functools.wraps(function)
    def call():
        if kept.cache_info().currsize:
            return kept()
        with lock:
            return kept()

    call.cache_clear = kept.cache_clear
    return call
