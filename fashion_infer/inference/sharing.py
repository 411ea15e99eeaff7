"""Sharing of work between devices that run at the same time: one thread each, tasks assigned in order."""

import threading
from concurrent.futures import ThreadPoolExecutor
from typing import Callable, Iterable, Sequence, TypeVar

Worker = TypeVar("Worker")
Task = TypeVar("Task")
_NONE_LEFT = object()


def share(workers: Sequence[Worker], tasks: Iterable[Task], work: Callable[[Worker, Task], None]) -> None:
    """Do all tasks. Each worker takes the next task when it has finished one, so that a faster one does more.

    Parameters
    ----------
    workers
        Each gets its own thread.
    tasks
        One thread at a time takes the next, so that a generator can create them on demand.
    work
        Called as work(worker, task).

    Raises
    ------
    BaseException
        The first error of a task, after all threads have ended; no task starts after an error.
    """
    lock, waiting, stop = threading.Lock(), iter(tasks), threading.Event()

    def run(worker):
        try:
            while not stop.is_set():
                with lock:
                    task = next(waiting, _NONE_LEFT)
                if task is _NONE_LEFT:
                    return
                work(worker, task)
        except BaseException:
            stop.set()
            raise

    with ThreadPoolExecutor(len(workers)) as pool:
        running = [pool.submit(run, worker) for worker in workers]
        try:
            for future in running:
                future.result()
        except BaseException:  # also Ctrl-C: the pool waits for its threads, which must not go on
            stop.set()
            raise
