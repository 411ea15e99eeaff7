"""Measures how long this process's threads waited for a processor because of other programs."""

import os
from pathlib import Path
from typing import Optional

TASKS = Path("/proc/self/task")


def waited() -> Optional[float]:
    """Return for how many seconds this process's threads were ready but not running; None if Linux does not count.

    The result is the sum over all threads that have not ended, from the second number of their schedstat.
    """
    total = 0
    try:
        for thread in os.listdir(TASKS):
            file = TASKS / thread / "schedstat"
            try:
                total += int(file.read_text().split()[1])
            except (FileNotFoundError, ProcessLookupError):
                if file.parent.exists():  # a thread that has ended does not count
                    return None
    except (OSError, ValueError, IndexError):
        return None
    return total / 1e9
