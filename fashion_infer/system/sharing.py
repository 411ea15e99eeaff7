"""Sharing of tasks between workers, such as devices, that work at the same time, each in its own thread."""

import threading
from concurrent.futures import ThreadPoolExecutor
from typing import Callable, Iterable, Sequence, TypeVar

Worker = TypeVar("Worker")
Task = TypeVar("Task")
_NONE_LEFT = object()


def share(workers: Sequence[Worker], tasks: Iterable[Task], work: Callable[[Worker, Task], None]) -> None:
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
        except BaseException:  # also Ctrl-C: stop the threads, because the pool waits for them
            stop.set()
            raise
