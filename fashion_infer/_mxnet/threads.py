"""Number of CPU threads for MXNet's operators."""

import contextlib
import os
import sys

_threads = None


def set_threads(threads):
    """Set the number of CPU threads for MXNet's operators, if MXNet has not been loaded yet. It must not change later:
    with more threads than oneDNN prepared a layer for, results were incorrect, or the process crashed."""
    global _threads
    if "mxnet" not in sys.modules:
        _threads = threads


def set_networks(networks):
    """Let MXNet run this many graphs on the CPU at once, on a thread each, if it has not been loaded yet."""
    if "mxnet" not in sys.modules:
        os.environ["MXNET_CPU_WORKER_NTHREADS"] = str(networks)


def openmp_thread_count():
    """Return the number of threads for MXNet: that of `set_threads`, else one per core that this process may use."""
    return _threads or len(os.sched_getaffinity(0))


@contextlib.contextmanager
def openmp_threads():
    """Return a context for loading MXNet that sets its number of threads, and makes idle threads sleep instead of spin,
    which slows down the fused network. The variables are removed: they would affect other libraries."""
    names = ("OMP_NUM_THREADS", "OMP_WAIT_POLICY")
    before = {name: os.environ.get(name) for name in names}
    if _threads is not None or before["OMP_NUM_THREADS"] is None:
        os.environ["OMP_NUM_THREADS"] = str(openmp_thread_count())
    os.environ.setdefault("OMP_WAIT_POLICY", "passive")
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value
