"""Starts commands that are killed when the process that started them ends, even if that was killed."""

import ctypes
import os
import subprocess
import sys
from typing import List, Sequence

_PR_SET_PDEATHSIG, _SIGKILL = 1, 9


def start(command: Sequence[str], **options) -> subprocess.Popen:
    """Start a command in its own session, and kill it when the calling thread ends. Because the caller has threads,
    no Python code may run between fork and exec: the new process runs this file."""
    words: List[str] = [sys.executable, "-I", "-S", "-B", __file__, str(os.getpid()), *command]
    return subprocess.Popen(words, start_new_session=True, **options)


def main() -> None:
    """Let the kernel kill this process when its parent ends, and replace this process with the command."""
    parent, command = int(sys.argv[1]), sys.argv[2:]
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, _SIGKILL)
    if os.getppid() != parent:  # the parent ended before prctl was called
        sys.exit(1)
    os.execvp(command[0], command)


if __name__ == "__main__":
    main()
