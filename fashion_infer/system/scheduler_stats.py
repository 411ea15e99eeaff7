"""How long this process's threads waited for a processor: what other programs took of their time."""

import os
from pathlib import Path
from typing import Optional

TASKS = Path("/proc/self/task")


def waited() -> Optional[float]:
    """Seconds for which threads that are alive now could have run and did not, summed; None where Linux counts none.

    The second number of a thread's schedstat, in nanoseconds (Documentation/scheduler/sched-stats.rst).
    """
    total = 0
    try:
        for thread in os.listdir(TASKS):
            file = TASKS / thread / "schedstat"
            try:
                total += int(file.read_text().split()[1])
            except (FileNotFoundError, ProcessLookupError):
                if file.parent.exists():  # a thread that has ended is no reason
                    return None
    except (OSError, ValueError, IndexError):
        return None
    return total / 1e9
