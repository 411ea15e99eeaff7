"""Runs programs in child processes, for measurements that need a separate process."""

import os
import subprocess
import sys
from typing import Sequence


def run(program: Sequence[str], timeout: float, **environment: str) -> subprocess.CompletedProcess:
    """Run a program to its end. It can import the same modules as this process.

    Parameters
    ----------
    program
        The command, as a list of words.
    timeout
        Time limit in seconds.
    **environment
        Additional environment variables.

    Returns
    -------
    subprocess.CompletedProcess
        The result, with the program's output as text.

    Raises
    ------
    OSError, subprocess.TimeoutExpired
        When the program cannot start, or does not end in time.
    """
    path = os.pathsep.join(part for part in sys.path if part)
    known = {**os.environ, "PYTHONPATH": path, **environment}
    return subprocess.run(program, capture_output=True, text=True, timeout=timeout, env=known)


def last_line(done: subprocess.CompletedProcess) -> str:
    """Return the last line that a failed program wrote on stderr; if it wrote nothing, its exit code in words."""
    lines = done.stderr.strip().splitlines()
    return lines[-1] if lines else f"exit code {done.returncode}"
