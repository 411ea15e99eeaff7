"""Programs that this one starts: the profiler, the ceilings and the counters each need a process of their own."""

import os
import subprocess
import sys
from typing import Sequence


def run(program: Sequence[str], timeout: float, **environment: str) -> subprocess.CompletedProcess:
    """Run a program to its end, with this very package on its path, wherever it was imported from.

    Parameters
    ----------
    program
        Its words.
    timeout
        Seconds.
    **environment
        Further variables of its environment.

    Returns
    -------
    subprocess.CompletedProcess
        With what it printed as text.

    Raises
    ------
    OSError, subprocess.TimeoutExpired
        When it cannot be started, or does not end in time.
    """
    path = os.pathsep.join(part for part in sys.path if part)
    known = {**os.environ, "PYTHONPATH": path, **environment}
    return subprocess.run(program, capture_output=True, text=True, timeout=timeout, env=known)


def last_line(done: subprocess.CompletedProcess) -> str:
    """The last line that a failed program left on stderr, or its exit code."""
    lines = done.stderr.strip().splitlines()
    return lines[-1] if lines else f"exit code {done.returncode}"
