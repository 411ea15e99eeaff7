"""Ctrl-C, where Python would lose it."""

import signal
import sys
import threading
from contextlib import contextmanager
from typing import Iterator

_PAUSE = 0.01  # seconds until a dropped interrupt comes again: by then the callback that dropped it has ended
_pressed = False


def insist() -> None:
    """Have an interrupt that Python dropped come again: from now on, for as long as the process lives.

    Python prints and drops what a callback of C raises: a destructor, or what frees the lock of an import. Of 1,600
    interrupts of `data fetch` while it imported, 5 were dropped so, and the download went on.
    """
    before = sys.unraisablehook

    def again(dropped: "sys.UnraisableHookArgs") -> None:
        if not issubclass(dropped.exc_type, KeyboardInterrupt):
            return before(dropped)
        # To the main thread, whose wait it ends. Raised here and now it would be dropped once more.
        timer = threading.Timer(_PAUSE, signal.pthread_kill, [threading.main_thread().ident, signal.SIGINT])
        timer.daemon = True
        timer.start()

    sys.unraisablehook = again
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, _interrupt)


def _interrupt(number: int, frame: object) -> None:
    global _pressed
    _pressed = True
    raise KeyboardInterrupt


def pressed() -> bool:
    """Whether Ctrl-C was pressed since `insist`: another error may have taken its KeyboardInterrupt's place."""
    return _pressed


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
