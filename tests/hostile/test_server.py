"""The server notices processes that a try has left running."""

import subprocess
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))
import server


def test_only_running_processes_count_as_left():
    sleeper = subprocess.Popen(["sleep", "60"], start_new_session=True)
    assert server._left(sleeper.pid)  # this call also kills the process
    assert not server._left(sleeper.pid)  # its process group still exists, because it was not waited for
    sleeper.wait()
