"""Memory and processes bounded by the kernel, where this program may make a cgroup (version 2) of its own.

That needs a folder whose memory controller is handed on to its children: the program's own cgroup, or one that the
operator made and names in FASHION_INFER_CGROUP. Elsewhere the referee watches (`processes`).
"""

import contextlib
import os
import uuid
from pathlib import Path
from typing import List, Optional

_ROOT = Path("/sys/fs/cgroup")
_CONTROLLERS = {"memory", "pids"}


def parent(root: Path = _ROOT) -> Optional[Path]:
    """A folder in which cgroups with bounds can be made; None where there is none."""
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
    """A cgroup with bounds, made on entering and removed on leaving, with all that is in it killed."""

    def __init__(self, folder: Path, memory: int, processes: int):
        self.path = folder / f"fashion-infer-{uuid.uuid4().hex[:12]}"
        self.path.mkdir()
        (self.path / "memory.max").write_text(str(memory))
        (self.path / "pids.max").write_text(str(processes))
        with contextlib.suppress(OSError):  # without swap in the kernel there is no such file
            (self.path / "memory.swap.max").write_text("0")

    @property
    def out_of_memory(self) -> bool:
        """Whether the kernel killed something in it for its memory."""
        with contextlib.suppress(OSError):
            lines = (self.path / "memory.events").read_text().split()
            return lines[lines.index("oom_kill") + 1] != "0"
        return False

    def entered(self, command: List[str]) -> List[str]:
        """The command, in this cgroup from its first instruction on."""
        return ["/bin/sh", "-c", 'echo $$ > "$0" && exec "$@"', str(self.path / "cgroup.procs"), *command]

    def freeze(self) -> None:
        """Keep all that is in it from running, whatever signals it gets."""
        self._frozen("1")

    def thaw(self) -> None:
        """Let it run."""
        self._frozen("0")

    def _frozen(self, state: str) -> None:
        with contextlib.suppress(OSError):  # since Linux 5.2
            (self.path / "cgroup.freeze").write_text(state)

    def remove(self) -> None:
        """Kill what is left, and remove it."""
        with contextlib.suppress(OSError):
            (self.path / "cgroup.kill").write_text("1")
        with contextlib.suppress(OSError):
            self.path.rmdir()
