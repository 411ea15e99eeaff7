"""One thread at a time in MXNet, and in what else is one for the process.

MXNet 1.9.1 may not be called from two threads at once: two that partition a graph leave one of them unfused, two that
import it leave neither. Nor is there more than one op-time log, one number of threads and one stderr. Whoever uses any
of them holds this lock. Nothing is lost by waiting: the library's pool serves one caller at a time anyway.

A fork waits until no other thread holds it. The child then finds MXNet idle, as MXNet's own handlers of a fork want it.
"""

import functools
import os
import threading

alone = threading.RLock()
os.register_at_fork(before=alone.acquire, after_in_parent=alone.release, after_in_child=alone.release)


def once(function):
    """A function without arguments that runs once a process, however many threads call it first."""
    kept = functools.lru_cache(maxsize=None)(function)

    @functools.wraps(function)
    def call():
        if kept.cache_info().currsize:
            return kept()
        with alone:
            return kept()

    call.cache_clear = kept.cache_clear
    return call
