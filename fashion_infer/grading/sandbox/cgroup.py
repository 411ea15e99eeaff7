"""Lets the kernel limit memory and processes of a box by a cgroup, where this user may create one.

In version 2 it is created in the program's own cgroup, or in the one that FASHION_INFER_CGROUP names; in version 1, in
the program's own cgroup of each controller. Without a cgroup, the referee checks the limits.
"""

import contextlib
import os
import time
import uuid
from pathlib import Path
from typing import Dict, List, NamedTuple, Optional

_ROOT = Path("/sys/fs/cgroup")
_OWN = Path("/proc/self/cgroup")
_CONTROLLERS = ("memory", "pids")


class Parents(NamedTuple):
    """The folders in which a cgroup is created: one per controller in version 1, the same one twice in version 2."""

    memory: Path
    pids: Path


def parents(root: Path = _ROOT, own: Path = _OWN) -> Optional[Parents]:
    paths: Dict[str, str] = {}  # of the program's own cgroup by controller; "" stands for version 2
    with contextlib.suppress(OSError):
        for line in own.read_text().splitlines():
            _, controllers, path = line.split(":", 2)
            paths.update(dict.fromkeys(controllers.split(","), path.lstrip("/")))
    named = os.environ.get("FASHION_INFER_CGROUP")
    for folder in ([Path(named)] if named else []) + [root / paths.get("", "")]:
        with contextlib.suppress(OSError):
            handed_on = (folder / "cgroup.subtree_control").read_text().split()
            if set(_CONTROLLERS) <= set(handed_on) and _writable(folder):
                return Parents(folder, folder)
    if not set(_CONTROLLERS) <= set(paths):
        return None
    found = Parents(*(root / controller / paths[controller] for controller in _CONTROLLERS))
    return found if _writable(found.memory) and _writable(found.pids) else None


def _writable(folder: Path) -> bool:
    return os.access(folder, os.W_OK | os.X_OK)


class Group:
    """A cgroup with limits on memory (in bytes) and on the number of processes. The constructor creates it in folders
    from `parents`; `remove` kills its processes."""

    def __init__(self, where: Parents, memory: int, processes: int):
        name = f"fashion-infer-{uuid.uuid4().hex[:12]}"
        self.memory, self.pids = where.memory / name, where.pids / name
        self._unified = self.memory == self.pids
        for folder in (self.memory, self.pids):
            folder.mkdir(exist_ok=True)
        limit, swap = ("max", "swap.max") if self._unified else ("limit_in_bytes", "swappiness")
        (self.memory / f"memory.{limit}").write_text(str(memory))
        (self.pids / "pids.max").write_text(str(processes))
        with contextlib.suppress(OSError):  # a kernel without swap does not have this file
            (self.memory / f"memory.{swap}").write_text("0")

    @property
    def exceeded(self) -> Optional[str]:
        """The code of the limit that was exceeded, or None."""
        memory = self.memory / ("memory.events" if self._unified else "memory.oom_control")
        events = [("memory_limit", memory, "oom_kill"), ("threads_limit", self.pids / "pids.events", "max")]
        for code, file, event in events:
            with contextlib.suppress(OSError, ValueError):  # Linux before 4.13 does not count
                words = file.read_text().split()
                if words[words.index(event) + 1] != "0":
                    return code
        return None

    def entered(self, command: List[str]) -> List[str]:
        script = 'echo $$ > "$0" && echo $$ > "$1" && shift && exec "$@"'
        files = [str(folder / "cgroup.procs") for folder in (self.memory, self.pids)]
        return ["/bin/sh", "-c", script, *files, *command]

    def freeze(self, frozen: bool) -> None:
        """Stop all processes in the cgroup, or let them continue. They stay stopped, whatever signals they get."""
        with contextlib.suppress(OSError):  # version 1 and Linux before 5.2 do not have this file
            (self.memory / "cgroup.freeze").write_text(str(int(frozen)))

    def remove(self) -> None:
        with contextlib.suppress(OSError):
            (self.memory / "cgroup.kill").write_text("1")
        for folder in (self.memory, self.pids):
            for _ in range(100):  # killed processes end a little later
                with contextlib.suppress(OSError):
                    folder.rmdir()
                if not folder.exists():
                    break
                time.sleep(0.01)
