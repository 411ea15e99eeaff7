"""One thread at a time in MXNet, and in what else is one for the process.

MXNet 1.9.1 may not be called from two threads at once: two that partition a graph leave one of them unfused, two that
import it leave neither. Nor is there more than one op-time log, one number of threads and one stderr. Code that uses
any of them holds this lock. Nothing is lost by waiting: the library's pool serves one caller at a time anyway.

A fork waits until no other thread holds it. The child then finds MXNet idle, as MXNet's own handlers of a fork want it.
"""

import functools
import os
import threading
from collections import deque


class _Queue:
    """A lock that a thread may take again while it has it, and that threads get in the order in which they asked.

    Python's own has no order: a fork beside two threads that went on calling `infer` waited for ever.
    """

    def __init__(self, owner=None, depth=0):
        self._owner, self._depth = owner, depth
        self._waiting = deque()
        self._door = threading.Lock()  # of this object itself, for an instant

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
            turn[1].acquire()  # until `release` hands over
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
        """After a fork: of those that waited, nobody is here."""
        self.__init__(self._owner if self._depth > 1 else None, self._depth - 1)

    __enter__ = acquire

    def __exit__(self, *_):
        self.release()


lock = _Queue()
os.register_at_fork(before=lock.acquire, after_in_parent=lock.release, after_in_child=lock.release_in_child)


def once(function):
    """A function without arguments that runs once a process, however many threads call it first."""
    kept = functools.lru_cache(maxsize=None)(function)

    @functools.wraps(function)
    def call():
        if kept.cache_info().currsize:
            return kept()
        with lock:
            return kept()

    call.cache_clear = kept.cache_clear
    return call
