"""Ctrl-C, where Python would lose it."""

import signal
import threading
from contextlib import contextmanager
from typing import Iterator


@contextmanager
def interrupt_deferred() -> Iterator[None]:
    """Let Ctrl-C wait for the end of the block (or of the function, as a decorator).

    For blocks within which C calls back: Python would raise KeyboardInterrupt in the callback, where it is printed and
    dropped. MXNet calls after each node, h5py as each of its objects goes: 24 of 40 interrupts of `models import` were
    lost there.
    """
    main = threading.current_thread() is threading.main_thread()  # signals go there alone
    if not main or signal.getsignal(signal.SIGINT) in (None, signal.SIG_IGN, signal.SIG_DFL):
        yield
        return
    caught = []
    before = signal.signal(signal.SIGINT, lambda *_: caught.append(True))
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
    if caught:
        raise KeyboardInterrupt
