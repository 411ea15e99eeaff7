"""Handling of Ctrl-C, and blocks that it must not interrupt."""

import signal
import threading
from contextlib import contextmanager
from typing import Iterator

_pressed = False


def record() -> None:
    """Start recording Ctrl-C: C code that it interrupts in an import raises ImportError or TypeError instead."""
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, _interrupt)


def pressed() -> bool:
    """Return whether Ctrl-C was pressed since `record`. Another error may have replaced KeyboardInterrupt."""
    return _pressed


def _interrupt(number: int, frame: object) -> None:
    global _pressed
    _pressed = True
    raise KeyboardInterrupt


@contextmanager
def interrupt_deferred(*others: int) -> Iterator[None]:
    """Defer Ctrl-C, and other signals, to the end of the block (or the function, as a decorator). In callbacks from C,
    of MXNet after each node and of h5py when it frees an object, KeyboardInterrupt would be lost."""
    caught = []
    before = {}
    if threading.current_thread() is threading.main_thread():  # only the main thread receives signals
        for number in (signal.SIGINT, *others):
            if callable(signal.getsignal(number)):  # not if the signal is ignored or has the default action
                before[number] = signal.signal(number, lambda number, _: caught.append(number))
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
        for number in caught[:1]:
            signal.raise_signal(number)
