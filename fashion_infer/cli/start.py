"""Prepares the process for a command: records Ctrl-C, opens closed standard streams, ignores warnings as errors."""

import io
import os
import sys
import warnings

from ..errors import DataError
from ..system import interrupts

_NAMES = {0: "stdin", 1: "stdout", 2: "stderr"}


def prepare() -> None:
    """Record Ctrl-C, open the standard streams that are closed, and ignore warnings that would become errors.

    Raises
    ------
    DataError
        When standard output is closed. Otherwise the first file that the program opens would receive the output.
    """
    interrupts.record()
    closed = [number for number in _NAMES if not _is_open(number)]
    for number in closed:
        if os.open(os.devnull, os.O_RDWR) != number:  # the system gives the lowest free number
            raise AssertionError("descriptors are given out lowest first")
        setattr(sys, _NAMES[number], os.fdopen(number, "r" if number == 0 else "w", closefd=False))
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")  # for characters that the encoding lacks
    if any(action == "error" for action, *_ in warnings.filters):
        # With PYTHONWARNINGS=error, a warning by other people's code would end the program.
        warnings.simplefilter("ignore")
    if 1 in closed:
        raise DataError("standard output is closed: send it to a file or to /dev/null")


def _is_open(number: int) -> bool:
    try:
        os.fstat(number)
    except OSError:
        return False
    return True
