"""Runs external programs, such as profilers and sanitizers, within a time limit."""

import contextlib
import os
import signal
import subprocess
from pathlib import Path
from typing import Mapping, Optional, Sequence


def output(
    command: Sequence[str], seconds: float, folder: Optional[Path] = None, more: Optional[Mapping[str, str]] = None
) -> str:
    """Run a program and return its output. At the time limit it is stopped, and its output so far is returned.

    Parameters
    ----------
    command
        The program and its arguments.
    seconds
        Time limit. With less than a second, the program is not started.
    folder
        The program's working directory.
    more
        Environment variables to add to this process's environment.
    """
    if seconds <= 1:
        return ""
    try:
        run = subprocess.Popen(
            list(command),
            cwd=folder,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
            env={**os.environ, **(more or {})},
            start_new_session=True,
        )
    except OSError as error:
        return str(error)
    try:
        return run.communicate(timeout=seconds)[0]
    except subprocess.TimeoutExpired:
        _end(run)
        return run.communicate()[0]
    except BaseException:
        _end(run)
        raise


def _end(run: subprocess.Popen) -> None:
    """Kill a program and its children. Otherwise a kernel that never leaves a barrier would keep the GPU busy."""
    with contextlib.suppress(ProcessLookupError):
        os.killpg(run.pid, signal.SIGKILL)
