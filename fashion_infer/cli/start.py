"""Prepares the process for a command: records Ctrl-C, opens closed standard streams, and ignores fatal warnings."""

import io
import os
import sys
import warnings

from ..errors import DataError
from ..system import interrupts

_NAMES = {0: "stdin", 1: "stdout", 2: "stderr"}


def prepare() -> None:
    """Record Ctrl-C, connect closed standard streams to /dev/null, and ignore warnings if they are set to be errors.

    Raise DataError when standard output is closed, because the output would be lost.
    """
    interrupts.record()
    closed = [number for number in _NAMES if not _is_open(number)]
    for number in closed:
        if os.open(os.devnull, os.O_RDWR) != number:  # open() returns the lowest free descriptor, which is `number`
            raise AssertionError("open() did not return the lowest free descriptor")
        setattr(sys, _NAMES[number], os.fdopen(number, "r" if number == 0 else "w", closefd=False))
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")  # print characters that the encoding lacks as \uNNNN
    if any(action == "error" for action, *_ in warnings.filters):
        # With PYTHONWARNINGS=error, a warning of a library that we import would end the program.
        warnings.simplefilter("ignore")
    if 1 in closed:
        raise DataError("standard output is closed: redirect it to a file or to /dev/null")


def _is_open(number: int) -> bool:
    try:
        os.fstat(number)
    except OSError:
        return False
    return True
