"""The state in which a command starts: Ctrl-C recorded, three open streams, warnings that stay warnings."""

import io
import os
import sys
import warnings

from ..errors import DataError
from ..system import interrupts

_NAMES = {0: "stdin", 1: "stdout", 2: "stderr"}


def prepare() -> None:
    """Make the process one in which a command can run.

    Raises
    ------
    DataError
        When standard output is closed: the first file that the program opens would take its place, and be written to.
    """
    interrupts.record()
    closed = [number for number in _NAMES if not _is_open(number)]
    for number in closed:
        if os.open(os.devnull, os.O_RDWR) != number:  # the lowest free one
            raise AssertionError("descriptors are given out lowest first")
        setattr(sys, _NAMES[number], os.fdopen(number, "r" if number == 0 else "w", closefd=False))
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")  # a character that the terminal does not know
    if any(action == "error" for action, *_ in warnings.filters):
        # PYTHONWARNINGS=error: what warns is other people's code, and a warning is no reason to end.
        warnings.simplefilter("ignore")
    if 1 in closed:
        raise DataError("standard output is closed: send it to a file or to /dev/null")


def _is_open(number: int) -> bool:
    try:
        os.fstat(number)
    except OSError:
        return False
    return True
