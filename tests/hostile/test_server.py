"""The server reports processes that a try leaves."""

import subprocess
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))
import server


def test_a_process_is_left_as_long_as_it_runs():
    sleeper = subprocess.Popen(["sleep", "60"], start_new_session=True)
    assert server._left(sleeper.pid)  # and ends it
    assert not server._left(sleeper.pid)  # it was not waited for, so its group still exists
    sleeper.wait()
