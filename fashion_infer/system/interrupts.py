"""Ctrl-C, and the blocks that it must not end halfway."""

import signal
import threading
from contextlib import contextmanager
from typing import Iterator

_pressed = False


def record() -> None:
    """Record Ctrl-C from now on: C code that is interrupted while it imports raises an ImportError or a TypeError."""
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, _interrupt)


def pressed() -> bool:
    """Whether Ctrl-C was pressed since `record`: another error may have taken its KeyboardInterrupt's place."""
    return _pressed


def _interrupt(number: int, frame: object) -> None:
    global _pressed
    _pressed = True
    raise KeyboardInterrupt


@contextmanager
def interrupt_deferred(*others: int) -> Iterator[None]:
    """Let Ctrl-C, and other signals, wait for the end of the block (or of the function, as a decorator).

    For blocks that must not end halfway, and for those within which C calls back: Python would raise
    KeyboardInterrupt in the callback, where it is dropped. MXNet calls after each node, h5py as each of its objects
    goes: 24 of 40 interrupts of `models import` were lost there.
    """
    caught = []
    before = {}
    if threading.current_thread() is threading.main_thread():  # signals go there alone
        for number in (signal.SIGINT, *others):
            if callable(signal.getsignal(number)):  # neither ignored nor what ends the process at once
                before[number] = signal.signal(number, lambda number, _: caught.append(number))
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
        for number in caught[:1]:
            signal.raise_signal(number)
