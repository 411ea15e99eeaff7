"""Work shared between devices that run at the same time: a thread for each, tasks handed out in their order."""

import threading
from concurrent.futures import ThreadPoolExecutor
from typing import Callable, Iterable, Sequence, TypeVar

Worker = TypeVar("Worker")
Task = TypeVar("Task")
_NONE_LEFT = object()


def share(workers: Sequence[Worker], tasks: Iterable[Task], work: Callable[[Worker, Task], None]) -> None:
    """Do all tasks. Each worker takes the next one when it is done with its last, so that a faster one does more.

    Parameters
    ----------
    workers
        Each has a thread of its own.
    tasks
        One thread at a time asks for the next: a generator may make each as it is asked for.
    work
        work(worker, task).

    Raises
    ------
    BaseException
        The first error of a task, when every thread has ended: no task is begun after it.
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
        except BaseException:  # Ctrl-C as well: the pool waits for its threads, which must not go on
            stop.set()
            raise
