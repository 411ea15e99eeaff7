"""Programs that explain a kernel, run within a time limit."""

import contextlib
import os
import signal
import subprocess
from pathlib import Path
from typing import Mapping, Optional, Sequence


def output(
    command: Sequence[str], seconds: float, folder: Optional[Path] = None, more: Optional[Mapping[str, str]] = None
) -> str:
    """Output of a program; of one that was stopped, its output until then.

    Parameters
    ----------
    command
        The program and its arguments.
    seconds
        Limit; the program is not started when less than a second is left.
    folder
        Its working directory.
    more
        Variables in addition to this process's environment.
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
    """End a program and its children: a kernel that never leaves a barrier would keep the GPU."""
    with contextlib.suppress(ProcessLookupError):
        os.killpg(run.pid, signal.SIGKILL)
