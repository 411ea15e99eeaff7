"""How many CPU threads MXNet's operators use."""

import contextlib
import os
import sys

_threads = None


def set_threads(threads):
    """Let MXNet's operators use this many CPU threads, if it has not been loaded yet.

    Once loaded it keeps its number: oneDNN sizes its scratch memory by the number of threads when it prepares a layer,
    and running that layer on more of them gave wrong results, or a crash (seen with 2, then 3 and 4).

    Parameters
    ----------
    threads : int
        At least 1.
    """
    global _threads
    if "mxnet" not in sys.modules:
        _threads = threads


def set_networks(networks):
    """Let MXNet run that many graphs on the CPU at the same time, if it has not been loaded yet; else it runs one.

    Our operators wait for their GPU on a thread of MXNet's: with one thread, one GPU would wait for the other.

    Parameters
    ----------
    networks : int
        At least 1.
    """
    if "mxnet" not in sys.modules:
        os.environ["MXNET_CPU_WORKER_NTHREADS"] = str(networks)


def openmp_thread_count():
    """How many threads MXNet is to use: what `set_threads` said, else the cores that this process may use."""
    return _threads or len(os.sched_getaffinity(0))


@contextlib.contextmanager
def openmp_threads():
    """Tell MXNet how many threads to use while it loads, the one time that it asks, and that those are to sleep.

    Left alone it takes half of the cores, and its threads go on spinning for milliseconds after their work: they took a
    sixth of a core from the fused network. The variables go again: they would bind whatever is loaded later.
    """
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
