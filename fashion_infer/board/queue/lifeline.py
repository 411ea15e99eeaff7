"""Starts commands that die with the process that started them, however that one ends."""

import ctypes
import os
import subprocess
import sys
from typing import List, Sequence

_PR_SET_PDEATHSIG, _SIGKILL = 1, 9


def start(command: Sequence[str], **options) -> subprocess.Popen:
    """Start a command in a session of its own that is killed when the calling thread ends.

    The caller has threads, so nothing may run between fork and exec: a bare Python that runs this file sets it up.
    """
    words: List[str] = [sys.executable, "-I", "-S", "-B", __file__, str(os.getpid()), *command]
    return subprocess.Popen(words, start_new_session=True, **options)


def main() -> None:
    """Become the command."""
    parent, command = int(sys.argv[1]), sys.argv[2:]
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, _SIGKILL)
    if os.getppid() != parent:  # it died before that
        sys.exit(1)
    os.execvp(command[0], command)


if __name__ == "__main__":
    main()
