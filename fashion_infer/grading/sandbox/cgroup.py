"""Lets the kernel limit memory and processes of a box by a cgroup (version 2), where one is delegated to this user.

That is the program's own cgroup, or the one that FASHION_INFER_CGROUP names. Without it, the referee checks the limits.
"""

import contextlib
import os
import uuid
from pathlib import Path
from typing import List, Optional

_ROOT = Path("/sys/fs/cgroup")
_CONTROLLERS = {"memory", "pids"}


def parent(root: Path = _ROOT) -> Optional[Path]:
    named = os.environ.get("FASHION_INFER_CGROUP")
    folders: List[Path] = [Path(named)] if named else []
    with contextlib.suppress(OSError):
        own = next((line[3:] for line in Path("/proc/self/cgroup").read_text().splitlines() if line[:3] == "0::"), "")
        folders.append(root / own.lstrip("/"))
    for folder in folders:
        with contextlib.suppress(OSError):
            handed_on = set((folder / "cgroup.subtree_control").read_text().split())
            if handed_on >= _CONTROLLERS and os.access(folder, os.W_OK | os.X_OK):
                return folder
    return None


class Group:
    """A cgroup with limits on memory (in bytes) and on the number of processes. The constructor creates it in a folder
    from `parent`; `remove` kills its processes."""

    def __init__(self, folder: Path, memory: int, processes: int):
        self.path = folder / f"fashion-infer-{uuid.uuid4().hex[:12]}"
        self.path.mkdir()
        (self.path / "memory.max").write_text(str(memory))
        (self.path / "pids.max").write_text(str(processes))
        with contextlib.suppress(OSError):  # a kernel without swap does not have this file
            (self.path / "memory.swap.max").write_text("0")

    @property
    def out_of_memory(self) -> bool:
        with contextlib.suppress(OSError):
            lines = (self.path / "memory.events").read_text().split()
            return lines[lines.index("oom_kill") + 1] != "0"
        return False

    def entered(self, command: List[str]) -> List[str]:
        return ["/bin/sh", "-c", 'echo $$ > "$0" && exec "$@"', str(self.path / "cgroup.procs"), *command]

    def freeze(self) -> None:
        """Stop all processes in the cgroup. They stay stopped, whatever signals they get."""
        self._frozen("1")

    def thaw(self) -> None:
        self._frozen("0")

    def _frozen(self, state: str) -> None:
        with contextlib.suppress(OSError):  # the file does not exist before Linux 5.2
            (self.path / "cgroup.freeze").write_text(state)

    def remove(self) -> None:
        with contextlib.suppress(OSError):
            (self.path / "cgroup.kill").write_text("1")
        with contextlib.suppress(OSError):
            self.path.rmdir()
